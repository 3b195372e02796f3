"""Do Hugging Face's and Lightning's own Trainers train by a plan, with the losses of the plain run, in its bytes?"""

import importlib
import logging
import warnings

import pytest
import torch
from torch import nn

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.planning.apply import write_plan

pytestmark = pytest.mark.slow
STEPS = 4
NUMBERS = 1024  # bytes of single numbers, by which a Trainer's own step differs from forward and backward alone


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def plan_file(tmp_path):
    def write(build):
        found = ck.plan(build, device="cpu", fake=True).offers
        assert found[0].peak < 0.7 * found[-1].peak
        write_plan(found[0], tmp_path / "plan.json")
        return tmp_path / "plan.json", found[0].peak, found[-1].peak

    return write


# ---- Hugging Face ---------------------------------------------------------------------------------------------------
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_layer": 4, "n_embd": 32, "n_head": 2, "vocab_size": 40, "n_positions": 64}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, attn_implementation="eager"))
    ids = torch.arange(4 * 64).view(4, 64) % 40
    return model, {"input_ids": ids, "labels": ids.clone()}


def trained_by_transformers(folder, callbacks=(), **options):
    """The losses, the weights, the peak of the first step in bytes, and the model."""
    from transformers import Trainer, TrainingArguments

    class Measured(Trainer):
        peaks = []

        def training_step(self, model, inputs, num_items_in_batch=None):
            own, losses = super().training_step, []
            measured = ck.measure(lambda: losses.append(own(model, inputs, num_items_in_batch)))
            self.peaks.append(measured.peak)
            return losses[0]

    model, inputs = gpt2()
    data = [{name: t[i % 4] for name, t in inputs.items()} for i in range(4 * STEPS)]
    args = TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        max_steps=STEPS,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **options,
    )
    trainer = Measured(model, args, train_dataset=data, callbacks=list(callbacks))
    Measured.peaks.clear()
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, list(model.parameters()), Measured.peaks[0], model


def test_huggingfaces_trainer_has_the_losses_of_the_plain_run_and_the_peak_of_the_plan(tmp_path, plan_file):
    path, planned, plain = plan_file(gpt2)
    losses, weights, peak, _ = trained_by_transformers(tmp_path)
    assert len(losses) == STEPS and abs(peak - plain) <= NUMBERS
    ours, our_weights, our_peak, model = trained_by_transformers(tmp_path, [ck.trainer_callback(path)])
    assert ours == losses  # dropout included
    for a, b in zip(our_weights, weights, strict=True):
        torch.testing.assert_close(a, b)
    assert abs(our_peak - planned) <= NUMBERS
    with pytest.raises(CkptError, match="keeps to no plan"):
        ck.unapply(model)  # because it was undone


def test_a_plan_and_gradient_checkpointing_are_not_mixed(tmp_path, plan_file):
    path, *_ = plan_file(gpt2)
    with pytest.raises(CkptError, match="gradient_checkpointing on"):
        trained_by_transformers(tmp_path, [ck.trainer_callback(path)], gradient_checkpointing=True)


# ---- Lightning ------------------------------------------------------------------------------------------------------
def net():
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 16)) for _ in range(5))
    return nn.Sequential(*blocks), torch.randn(256, 16), lambda y: y.square().mean()


@pytest.fixture(params=["lightning.pytorch"])
def lightning(request):
    return importlib.import_module(request.param)


def trained_by_lightning(lightning, folder, callbacks=(), fails=False):
    """The losses, the weights, the peak of the first step in bytes, and the model."""
    model, x, loss = net()
    losses, peaks = [], []

    class Wrapped(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model

        def training_step(self, batch, number):
            found = loss(self.net(batch[0]))
            losses.append(found.item())
            if fails:
                raise ZeroDivisionError
            return found

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class FirstStep(lightning.Callback):
        """Measures one forward and backward of the model as it is while fit is under way."""

        def on_train_start(self, trainer, module):
            state = torch.get_rng_state()
            peaks.append(ck.measure(lambda: loss(model(x)).backward()).peak)
            model.zero_grad()
            torch.set_rng_state(state)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=256)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "default_root_dir": str(folder)}
    torch.manual_seed(1)
    trainer = lightning.Trainer(
        accelerator="cpu", max_steps=STEPS, max_epochs=STEPS, callbacks=[*callbacks, FirstStep()], **quiet
    )
    try:
        trainer.fit(Wrapped(), data)
    except ZeroDivisionError:
        assert fails
    return losses, list(model.parameters()), peaks[0], model


def test_lightnings_trainer_has_the_losses_of_the_plain_run_and_the_peak_of_the_plan(lightning, tmp_path, plan_file):
    path, planned, plain = plan_file(net)
    losses, weights, peak, _ = trained_by_lightning(lightning, tmp_path)
    assert len(losses) == STEPS and peak == plain
    ours, our_weights, our_peak, model = trained_by_lightning(
        lightning, tmp_path, [ck.lightning_callback(path, module="net")]
    )
    assert ours == losses
    for a, b in zip(our_weights, weights, strict=True):
        torch.testing.assert_close(a, b)
    assert our_peak == planned
    with pytest.raises(CkptError, match="keeps to no plan"):
        ck.unapply(model)


def test_after_a_failed_fit_the_model_keeps_to_no_plan(lightning, tmp_path, plan_file):
    path, *_ = plan_file(net)
    callback = ck.lightning_callback(path, module="net")
    *_, model = trained_by_lightning(lightning, tmp_path, [callback], fails=True)
    with pytest.raises(CkptError, match="keeps to no plan"):
        ck.unapply(model)


def test_a_module_that_is_not_there_and_a_plan_that_is_none_are_told(lightning, tmp_path, plan_file):
    path, *_ = plan_file(net)
    with pytest.raises(CkptError, match="the plan is for 'nett' in Wrapped, but Wrapped has no attribute `nett`"):
        trained_by_lightning(lightning, tmp_path, [ck.lightning_callback(path, module="nett")])
    for make in (ck.trainer_callback, ck.lightning_callback):
        with pytest.raises(CkptError, match="cannot read the plan"):
            make(tmp_path / "none.json")
