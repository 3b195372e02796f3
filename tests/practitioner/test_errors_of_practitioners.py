"""Does every mistake get one message that says what was found and what to do?"""

import subprocess
import sys
import textwrap

import pytest

from ckptlib.cli import main

HERE = "models_of_others"


@pytest.fixture
def ask(monkeypatch, capsys, request):
    """(exit code, stdout, stderr) of a command that is given where the models are."""
    monkeypatch.chdir(request.path.parent)

    def run(*argv):
        return main([str(word) for word in argv]), *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("measure nowhere:build", "no module 'nowhere', looked for from"),
        ("measure nowhere:build", f"{HERE}, test_"),
        (f"measure {HERE}:resnett", "has no function 'resnett'"),
        (f"measure {HERE}:resnett", "Did you mean resnet?"),
        (f"measure {HERE}:ALL", "is of type dict, expected a function"),
        (f"measure ./{HERE}.py:resnet", f"expected package.module:function, such as {HERE}:resnet"),
        (f"measure {HERE}:model_alone", "A model alone cannot be run: return (model, inputs)"),
        (f"measure {HERE}:needs_arguments", "needs arguments (rows). Write one without any: def build()"),
        (f"measure {HERE}:needs_a_batch", "give it a default, as in def needs_a_batch(batch=8)"),
        (f"measure {HERE}:step_needs_arguments", "needs arguments (x): expected one without any"),
        (
            f"measure {HERE}:loss_is_no_number",
            "without a loss function, the model returned a tensor of shape (2, 4)",
        ),
        (f"measure {HERE}:loss_is_no_number", "Return a loss too: (model, inputs, loss)"),
        (f"measure {HERE}:loss_is_a_tensor", "returned Tensor for a loss, expected a function. Was it called already?"),
        (f"measure {HERE}:frozen", "a number that needs no gradient. Is every parameter frozen"),
        (f"plan {HERE}:plain_step", "returned a function, which can be measured but not looked into"),
        (f"plan {HERE}:no_chain --fake", "has 3 Linear in layers, but block 1 of layers does not receive"),
        pytest.param(
            f"plan {HERE}:gpt2_with_cache --device cpu",
            "transformer.h.0 is called with a DynamicCache",
            marks=pytest.mark.slow,
        ),
        pytest.param(f"plan {HERE}:gpt2_with_cache --device cpu", "Set use_cache=False", marks=pytest.mark.slow),
        ("plan", "plan needs a model of yours, as package.module:function, or --chain FILE.json"),
        (f"fit {HERE}:plain_step", "has no parameter called batch, and fit needs one: def plain_step(batch)"),
        (f"fit {HERE}:tied --seq 8", "seq and fused are for models by name"),
        (f"fit {HERE}:tied --strategy selective", "strategy is 'selective', expected one of none, full, planned"),
        (f"fit {HERE}:tied --precision fp8", "precision is 'fp8', expected one of fp32, bf16, mixed"),
        (
            f"fit {HERE}:ignores_the_batch --strategy none",
            "the step needs the same bytes at batch 1 and 101: does your function use `batch`?",
        ),
        (f"fit {HERE}:sparse_gradients", "the gradient of embed.weight is sparse, and AdamW, which is counted here"),
        (f"fit {HERE}:sparse_gradients --precision mixed --strategy none", "Build it with sparse=False"),
        (f"fit {HERE}:built_above", "Build the model and its inputs inside what is traced: in your function"),
        pytest.param(f"plan {HERE}:drops_a_layer --fake", "Does the model leave out blocks", marks=pytest.mark.slow),
        pytest.param(
            f"plan {HERE}:drops_a_layer --fake --budget 100KB",
            "Does the model leave out blocks",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            f"fit {HERE}:drops_a_layer --gpu 64MiB --strategy planned",
            "Does the model leave out blocks",
            marks=pytest.mark.slow,
        ),
        (f"measure {HERE}:tied --plot nowhere/a.svg", "cannot draw to nowhere/a.svg"),
    ],
)
def test_a_mistake_is_explained_in_one_line(ask, command, message):
    code, out, err = ask(*command.split())
    err = err[err.index("ckptlib: ") :]  # transformers may have said something before
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        (
            f"measure {HERE}:wrong_shapes",
            ["Traceback", "mat1 and mat2 shapes cannot", "This was in 2 (Linear), which was given (2, 8)."],
        ),
        (f"plan {HERE}:wrong_shapes --device cpu", ["mat1 and mat2", "in 2 (Linear), which was given (2, 8)."]),
        (f"measure {HERE}:asks_for_values --fake", ["loss.item()", "measure it without --fake"]),
    ],
)
def test_an_error_of_ones_own_code_is_shown_without_our_frames(ask, command, messages):
    code, out, err = ask(*command.split())
    assert (code, out) == (1, "")
    assert all(message in err for message in messages), err
    assert "/ckptlib/" not in err


def test_no_chain_is_a_note_where_the_rest_can_be_answered(ask):
    code, out, _ = ask("fit", f"{HERE}:no_chain", "--gpu", "24MiB")
    assert code == 0
    assert "recomputed: none" in out and "there is no chain to plan. The model has 3 Linear" in out


# ---- where it stands ------------------------------------------------------------------------------------------------
def test_importing_warns_of_nothing():
    code = "import ckptlib, ckptlib.cli, ckptlib.errors; ckptlib.measure; ckptlib.plan; ckptlib.fit"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    torchs_own = "triton not found; flop counting will not work"  # until 2.12, whoever imports torch's counter
    told = [line for line in done.stderr.splitlines() if torchs_own not in line]
    assert (done.returncode, done.stdout, told) == (0, "", [])


def test_a_path_with_spaces_and_other_letters(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "mein Ördner 模型"
    folder.mkdir()
    source = """
        import torch
        def net(batch=4):
            blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(3)]
            return torch.nn.Sequential(*blocks), torch.ones(batch, 8), torch.sum
    """
    (folder / "netz_ö.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.chdir(folder)
    assert main(["measure", "netz_ö:net", "--device", "cpu", "--plot", "zeit ö.svg"]) == 0
    assert main(["plan", "netz_ö:net", "--device", "cpu", "--plot", "plan ö.svg"]) == 0
    assert "0 … 2" in capsys.readouterr().out
    assert all((folder / name).read_text(encoding="utf-8").startswith("<svg") for name in ("zeit ö.svg", "plan ö.svg"))
