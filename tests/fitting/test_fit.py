"""What fits, against a fake run of all layers, hand counts of the training state, and source 001's "batch 21"."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from ckptlib.commands.fit import fit_model
from ckptlib.cuda.gpus import at_release, capacity
from ckptlib.errors import CkptError
from ckptlib.fitting.batch_rescaling import batch_to_run, replayed
from ckptlib.fitting.fit import fit, fits
from ckptlib.fitting.largest_batch import STRATEGIES, FitQuestion
from ckptlib.fitting.named_model_needs import BlockChain, EqualBlocks
from ckptlib.fitting.peak_windows import parts
from ckptlib.fitting.three_block_run import BLOCKS, optimizer
from ckptlib.fitting.transformer_step import RULES, Setting, forward_backward, simulated, training_step
from ckptlib.models import formulas
from ckptlib.models.configs import GPT2_XL, GPT2_XL_SWIGLU, LLAMA3_8B, Config, LlamaConfig
from ckptlib.models.transformer import build
from ckptlib.remember.measurement import measure
from ckptlib.units import GiB

SMALL = Config(layers=7, width=128, heads=4, tokens=64, vocabulary=1000)
SMALL_LLAMA = LlamaConfig(layers=7, width=128, heads=4, tokens=64, vocabulary=1000, kv_heads=2, ffn=320)
A100 = capacity("a100")[1]
PLENTY = 2**50


def all_layers(at, strategy):
    """The whole training step of the whole model."""
    kind = "selective" if strategy == "selective" else "none"
    return simulated(lambda: training_step(at, kind, at.config.layers if strategy == "full" else 0), at.gpu)


# ---- bytes ----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "precision", "batch", "strategy", "fused", "window"),
    [
        (SMALL, "fp32", 1, "none", False, "update"),
        (SMALL, "mixed", 64, "selective", False, "backward"),
        (SMALL, "bf16", 64, "full", True, "backward"),
        (SMALL, "fp32", 64, "full", False, "backward"),
        (SMALL_LLAMA, "bf16", 64, "none", True, "backward"),
        (SMALL_LLAMA, "mixed", 2, "selective", False, "update"),
        (SMALL_LLAMA, "fp32", 64, "full", False, "backward"),
    ],
)
def test_three_layers_continued_are_all_layers_measured_to_the_byte(config, precision, batch, strategy, fused, window):
    at = Setting(config, batch, precision, fused, A100)
    need, run = FitQuestion(EqualBlocks(at), PLENTY, strategy).need(batch), all_layers(at, strategy)
    assert need.nbytes == run.peak and need.window.startswith(window)
    found = parts(run.timeline, run.timeline.peak_moment, config)
    assert found.keys() == need.parts.keys()
    for part in set(found) - {"gradients", "temporary"}:  # without an optimizer, a fresh gradient is not known as one
        assert found[part] == need.parts[part], part


@pytest.mark.parametrize("strategy", ["none", "selective", "full", "planned"])
@pytest.mark.parametrize("release", ["2.8", "2.11", "2.12"])
def test_the_workspaces_are_those_of_the_release(release, strategy):
    """Before 2.9 cuBLASLt's is freed after each call, up to 2.11 it is kept by each thread, and then there is none."""
    at = Setting(SMALL, 1, "fp32", False, at_release(A100, release))
    need = FitQuestion(EqualBlocks(at), PLENTY, strategy).need(1)
    assert need.nbytes == all_layers(at, "none" if strategy == "planned" else strategy).peak
    assert need.window == "update"


@pytest.mark.slow
def test_gpt2_xl_continued_is_gpt2_xl_measured():
    """All 48 layers, at the batch that is found to fit: to the byte, and on the right side of 80 GiB."""
    answer = fit(GPT2_XL_SWIGLU, "80GiB", 1024, "fp32", "none")
    at = Setting(GPT2_XL_SWIGLU, answer.batch, "fp32", False, A100)
    assert answer.need.nbytes == all_layers(at, "none").peak <= 80 * GiB < answer.too_much.nbytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "precision", "fused", "kind", "batches"),
    [
        (GPT2_XL, "mixed", False, "none", (11, 200)),
        (SMALL, "bf16", True, "selective", (2, 7)),
        (SMALL_LLAMA, "fp32", False, "selective", (3, 64)),
        (replace(SMALL_LLAMA, tokens=51, vocabulary=997, ffn=202), "bf16", False, "none", (5,)),  # 202 is 2 * 101
    ],
)
def test_one_record_tells_every_batch(config, precision, fused, kind, batches):
    """Every allocation and release, of whatever size, odd ones included: as if that batch had been run."""
    at = Setting(replace(config, layers=BLOCKS), 1, precision, fused, A100)
    for batch in batches:
        run = simulated(lambda batch=batch: forward_backward(replace(at, batch=batch), kind, BLOCKS - 1), A100)
        line, ops = replayed(replace(at, batch=batch), kind, BLOCKS - 1)
        assert [(c.nbytes, c.phase, c.op) for c in line.changes] == [
            (c.nbytes, c.phase, c.op) for c in run.timeline.changes
        ]
        assert len(ops) == len(run.trace.ops)


def test_the_batch_that_is_run_divides_no_size():
    assert batch_to_run(SMALL) == 101
    assert batch_to_run(replace(SMALL, vocabulary=101 * 103, tokens=107)) == 109
    assert batch_to_run(replace(SMALL, dropout=0)) == 101  # every prime divides 0, which is no size


# ---- plans ----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "precision", "share"), [(SMALL, "fp32", 0.2), (SMALL_LLAMA, "bf16", 0.0), (SMALL_LLAMA, "mixed", 0.5)]
)
def test_a_plan_run_for_real_needs_what_was_predicted(config, precision, share):
    """Real tensors, layer by layer as the schedule says; every byte of it."""
    at = Setting(replace(config, layers=5, width=64, tokens=32), 16, precision, False, A100)
    question = FitQuestion(EqualBlocks(at), PLENTY, "planned")
    least, most = question.least(at.batch), FitQuestion(EqualBlocks(at), PLENTY, "none").need(at.batch).nbytes
    need = FitQuestion(EqualBlocks(at), int(least + share * (most - least)), "planned").need(at.batch)
    recomputed = [n for n in need.schedule.forwards() if n > 1]
    assert len(recomputed) > 1
    kind = "selective" if need.selective else "none"
    setup = lambda: training_step(at, kind, schedule=need.schedule)  # noqa: E731
    run = measure(setup, "sim:cuda", builds=True, gpu=A100, rules=RULES)
    # A block with dropout keeps the generator's state to run again. On a GPU that stays in the host's memory.
    rng = RULES.round_size(torch.get_rng_state().nbytes) * len(recomputed) if config.dropout else 0
    assert 0 <= run.peak - need.nbytes <= rng
    assert config.dropout or run.peak == need.nbytes


def random_setting(seed):
    draw = random.Random(seed)
    sizes = {"layers": draw.randint(3, 12), "heads": draw.choice([1, 2, 4]), "tokens": draw.choice([16, 40, 128])}
    sizes |= {"width": draw.choice([32, 64, 96]), "vocabulary": draw.choice([50, 500, 3000])}
    llama = {"kv_heads": 1, "ffn": draw.choice([48, 256])}
    config = LlamaConfig(**sizes, **llama) if seed % 2 else Config(**sizes)
    return Setting(config, draw.randint(2, 40), draw.choice(["fp32", "bf16", "mixed"]), draw.random() < 0.3, A100), draw


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_is_worse_than_a_strategy_without_one(seed):
    """In extra FLOPs at equal batch and bytes, and in the largest batch, whatever the model and the GPU."""
    at, draw = random_setting(seed)
    simple = {s: FitQuestion(EqualBlocks(at), PLENTY, s).need(at.batch) for s in STRATEGIES[:3]}
    edges = sorted(need.nbytes for need in simple.values())
    for nbytes in (edges[0], edges[1], draw.randint(edges[0], edges[2]), edges[2]):
        plan = FitQuestion(EqualBlocks(at), nbytes, "planned").need(at.batch)
        fitting = {s: need.extra for s, need in simple.items() if need.nbytes <= nbytes}
        assert plan.nbytes <= nbytes and plan.extra <= min(fitting.values())
        assert plan.extra == 0 or "none" not in fitting
    largest = {s: FitQuestion(EqualBlocks(at), draw.randint(edges[0], 3 * edges[2]), s) for s in STRATEGIES}
    nbytes = largest["none"].nbytes
    batches = {s: replace(question, nbytes=nbytes).search() for s, question in largest.items()}
    assert batches["planned"] >= max(batches.values())
    for strategy, batch in batches.items():  # the very edge
        question = FitQuestion(EqualBlocks(at), nbytes, strategy)
        assert question.least(batch + 1) > nbytes and (not batch or question.least(batch) <= nbytes)


@pytest.mark.slow
def test_the_bound_that_saves_planning_is_one():
    at = Setting(SMALL, 8, "fp32", False, A100)
    for kind in ("none", "selective"):
        chain = BlockChain(at, kind)
        for need in (chain.all_saved(), chain.each_again()):
            assert chain.fastest_possible(need.nbytes) <= need.extra
        assert chain.fastest_possible(chain.all_saved().nbytes) == chain.all_saved().extra
        assert chain.fastest_possible(0) == pytest.approx(chain.each_again().extra)


@pytest.mark.slow
def test_answers_for_all_strategies_are_shown_side_by_side():
    answers = fits(SMALL, 2**26, precision="fp32")
    batches = {strategy: answers[strategy].batch for strategy in STRATEGIES}
    assert batches["planned"] >= batches["full"] > batches["none"] > 0
    need = answers["planned"].need
    assert need.nbytes <= answers["planned"].capacity < answers["planned"].too_much.nbytes
    assert "does not fit" in str(answers) and "FLOPs more" in answers._repr_html_()


# ---- source 001 -----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_source_001_and_its_batch_of_21():
    """Source 001: 2,127,057,600 parameters in fp32 on 80 GB; "2.27 GB" of activations a sequence, so 21 fit."""
    assert GPT2_XL_SWIGLU.parameters == 2_127_057_600
    found = {s: fit(GPT2_XL_SWIGLU, "80GB", 1024, "fp32", s) for s in formulas.STRATEGIES}
    batches = {s: f.batch for s, f in found.items()}
    assert batches["none"] < batches["selective"] < 21 < batches["full"]  # nothing but whole blocks makes 21 fit
    # "Parameters: fixed at 31.70 GB" are parameters, gradients and two moments, in GiB, by formula and as measured.
    assert round(formulas.training_state_nbytes(GPT2_XL_SWIGLU) / GiB, 2) == 31.70
    at = Setting(GPT2_XL_SWIGLU, 1, "fp32", False, A100)
    chain = BlockChain(at, "none")
    done = chain.block.deeper(chain.block.done, 48, True)
    state = done["parameters"] + done["gradients"] + chain.adamw.state
    assert 0 <= done["temporary"] < 2**25  # cuBLAS' two
    assert state / GiB == pytest.approx(31.70, abs=0.005)
    # One sequence more: what is measured is more than five times the 2.27 of the source ...
    more = found["none"].too_much.nbytes - found["none"].need.nbytes
    assert 5 * 2.27 < more / 1e9 < 6 * 2.27
    # ... and so is what the layers alone keep, by formula.
    layers = 48 * sum(formulas.llama_terms(GPT2_XL_SWIGLU, itemsize=4).values())
    assert layers / 1e9 == pytest.approx(12.6, abs=0.05)
    assert found["none"].need.parts["activations"] == pytest.approx(batches["none"] * layers, rel=0.02)
    # A plan makes 21 fit, too, and costs less than running every block again.
    planned = FitQuestion(EqualBlocks(at), 80 * 10**9, "planned").need(21)
    assert planned.nbytes <= 80 * 10**9 and 0 < planned.extra < found["full"].need.extra


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "nbytes"), [("fp32", (4, 8)), ("bf16", (2, 4)), ("mixed", (2, 12))])
def test_training_state_is_what_adam_needs(precision, nbytes):
    """Parameters, and the optimizer's state: with gradients 16, 8 or 16 bytes for each parameter."""
    config = replace(GPT2_XL_SWIGLU, layers=4, tokens=64)
    at = Setting(config, 1, precision, False, A100)
    window, fullest = BlockChain(at, "none").after
    assert window == "update"
    assert nbytes[0] <= fullest["parameters"] / config.parameters <= nbytes[0] * 1.001  # rounded up to 512 B
    assert nbytes[1] <= optimizer(at).state / config.parameters <= nbytes[1] * 1.001
    assert fullest["gradients"] + fullest["temporary"] > 0


def test_a_step_trains(monkeypatch):
    """The step whose memory is measured, run for real: mixed precision moves the parameters as fp32 does."""
    moved = {}
    for precision in ("fp32", "mixed"):
        torch.manual_seed(0)
        built = []
        monkeypatch.setattr(
            "ckptlib.fitting.transformer_step.build", lambda *args, built=built: built.append(build(*args)) or built[0]
        )
        step = training_step(Setting(SMALL_LLAMA, 2, precision, False, A100))
        before = built[0].head.weight.detach().double().clone()
        for _ in range(3):
            step()
        moved[precision] = (built[0].head.weight.detach().double() - before).flatten()
    assert moved["fp32"].abs().max() > 1e-3
    assert torch.cosine_similarity(moved["mixed"], moved["fp32"], dim=0) > 0.9


def test_a_need_that_never_grows_ends_the_search():
    class Constant(EqualBlocks):
        def least(self, batch, strategy, nbytes):
            return 1000

    with pytest.raises(CkptError, match="what the step needs does not grow with the batch"):
        FitQuestion(Constant(Setting(SMALL, 1, "fp32", False, A100)), GiB, "none").search()


@pytest.mark.slow
@pytest.mark.parametrize("config", [SMALL, SMALL_LLAMA], ids=["GPT", "Llama"])
def test_three_blocks_tell_what_a_run_of_the_whole_model_tells(config):
    """The same model by its sizes and as a function of somebody's own: the same batches, and the same bytes."""

    def own(batch):
        ids = torch.randint(config.vocabulary, (config.tokens, batch))
        return build(config), ids, lambda out: F.cross_entropy(out.flatten(0, 1), ids.flatten())

    by_size = fits(config, "64MiB", precision="fp32", strategies=("none", "full"))
    as_function = fits(own, "64MiB", precision="fp32", strategies=("none", "full"))
    for strategy, answer in by_size.found.items():
        run = as_function[strategy]
        assert (answer.batch, answer.need.nbytes) == (run.batch, run.need.nbytes), strategy
        assert answer.too_much.nbytes == run.too_much.nbytes
        assert answer.need.extra == pytest.approx(run.need.extra, rel=1e-3), strategy
    assert as_function.notes == ("Recomputed are blocks of 7: blocks.0 … blocks.6.",)


def test_a_function_of_ones_own_decides_on_its_sequence_and_says_its_batch():
    with pytest.raises(CkptError, match="seq and fused are for models by name"):
        fit(lambda batch: None, seq=64)
    with pytest.raises(CkptError, match=r"your model has no parameter called batch, and fit needs one"):
        fit(lambda: None)


@pytest.mark.slow
def test_nothing_fits():
    answer = fit(LLAMA3_8B, "24GiB", 1024, "mixed")
    assert answer.batch == 0 and answer.need is None
    assert answer.too_much.nbytes > 16 * LLAMA3_8B.parameters
    assert "largest batch 0" in str(answer) and "would need" in str(answer)


@pytest.mark.parametrize(
    ("gpu", "nbytes"),
    [
        ("80GiB", 80 * 2**30),
        ("80GB", 80 * 10**9),
        ("80 gb", 80 * 10**9),
        (80 * 10**9, 80 * 10**9),
        ("0.5TB", 5 * 10**11),
    ],
)
def test_sizes(gpu, nbytes):
    assert capacity(gpu)[0] == nbytes


def test_cards():
    assert capacity("H200") == (141 * 10**9, capacity("h100")[1])
    assert capacity("a100-40gb")[0] == 40 * GiB
    for wrong in ("80Gi", "80iB", "gtx", "-3", "80G"):
        with pytest.raises(CkptError, match="expected a size such as 80GiB or 80GB, or one of t4"):
            capacity(wrong)


def test_mistakes():
    with pytest.raises(CkptError, match="precision is 'fp8', expected one of fp32, bf16, mixed"):
        fit("gpt2-xl", precision="fp8")
    with pytest.raises(CkptError, match="strategy is 'some'"):
        fit("gpt2-xl", strategy="some")
    with pytest.raises(CkptError, match="no model 'gpt9': expected a Config or one of gpt2-xl"):
        fit("gpt9")
    for seq in (0, -1, 1.5, True, 2**21 + 1):
        with pytest.raises(CkptError, match="expected a whole number of tokens, from 1 to 2,097,152"):
            fit("gpt2-xl", seq=seq)
    with pytest.raises(CkptError, match="80 bytes"):
        fit("gpt2-xl", gpu="80")


@pytest.mark.parametrize("name", ["layers", "width", "heads", "tokens", "vocabulary", "kv_heads", "ffn"])
def test_a_config_takes_positive_whole_numbers_only(name):
    for wrong in (0, -1, 8.0, "8", None, True):
        with pytest.raises(CkptError, match=f"{name} is {wrong!r}, expected a whole number, 1 or more"):
            replace(SMALL_LLAMA, **{name: wrong})


def test_a_config_whose_sizes_do_not_go_together_is_refused():
    with pytest.raises(CkptError, match="width 10 and 3 heads: .* such as 9"):
        Config(layers=2, width=10, heads=3, tokens=8, vocabulary=20)
    with pytest.raises(CkptError, match="width 2 and 3 heads: .* such as 3"):
        Config(1, 2, 3, 4, 5)
    with pytest.raises(CkptError, match="4 heads and kv_heads 3: .* divides the heads, such as 4"):
        replace(SMALL_LLAMA, kv_heads=3)
    with pytest.raises(CkptError, match="4 heads and kv_heads 8: .* Without a kv_heads of your own it is 8"):
        LlamaConfig(layers=2, width=32, heads=4, tokens=8, vocabulary=20)
    with pytest.raises(CkptError, match="9 features a head, expected an even number"):
        replace(SMALL_LLAMA, width=36)
    for wrong in (-0.1, 10, "0.1", None, float("nan")):
        with pytest.raises(CkptError, match="expected a probability, from 0 to 1"):
            replace(SMALL, dropout=wrong)


def test_ones_are_a_config():
    assert Config(1, 1, 1, 1, 1, dropout=0).parameters == 12 + 13 + 2 + 2


@pytest.mark.slow
@pytest.mark.parametrize("config", ["gpt2-xl", "llama3-405b"])
def test_a_sequence_of_the_most_tokens_has_an_answer(config):
    found = fit(config, "80GiB", seq=2**21)
    assert found.batch == 0 and found.too_much.nbytes > 80 * 2**30


@pytest.mark.slow
def test_the_command():
    args = {"model": "gpt2-xl-swiglu", "gpu": "80GiB", "seq": 1024, "precision": "fp32", "fused": False}
    answer = json.loads(fit_model(argparse.Namespace(**args, strategy="all", json=True))[0])
    assert answer["parameters"] == GPT2_XL_SWIGLU.parameters and answer["gpu_bytes"] == 80 * GiB
    batches = [found["batch"] for found in answer["strategies"].values()]
    assert (
        list(answer["strategies"]) == ["none", "selective", "full", "planned"]
        and batches == sorted(batches)
        and batches[0] > 1
    )
    for found in answer["strategies"].values():
        assert sum(found["breakdown"].values()) == found["bytes"] <= 80 * GiB < found["next_batch_bytes"]
    assert list(answer["extra_flops_by_batch"]) == [str(b) for b in sorted(set(batches))]
    assert answer["strategies"]["full"]["blocks_run_again"] == 48 and not answer["strategies"]["none"]["extra_flops"]
    text, code = fit_model(argparse.Namespace(**args, strategy="full", json=False))
    assert code == 0
    assert text.startswith("largest batch")


@pytest.mark.slow
def test_the_exit_code_says_whether_anything_fits():
    """Also that of `python -m ckptlib`, which is the same command."""
    words = ["-m", "ckptlib", "fit", "gpt2-xl", "--seq", "64", "--strategy", "none", "--json", "--gpu"]
    for gpu, code in (("80GiB", 0), ("1MiB", 1)):
        run = subprocess.run([sys.executable, *words, gpu], capture_output=True, text=True)
        assert run.returncode == code, run.stderr
        assert (json.loads(run.stdout)["strategies"]["none"]["batch"] > 0) == (code == 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no other system limits a process's own memory by RLIMIT_DATA")
def test_a_model_of_ones_own_is_never_built_for_real(tmp_path):
    """Its first layer alone is eight times as large as what the process may still allocate."""
    (tmp_path / "huge.py").write_text(
        "from torch import nn, randn\n\n\ndef build(batch):\n"
        "    model = nn.Sequential(*(nn.Linear(2**15, 2**15) for _ in range(3)))\n"
        "    return model, randn(batch, 2**15), lambda y: y.mean()\n"
    )
    program = (
        "import resource, sys, torch\nfrom ckptlib.cli import main\n"
        "status = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "limit = int(status['VmData'].split()[0]) * 2**10 + 2**29\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, "fit", "huge:build", "--gpu", "80GiB", "--strategy", "none", "--json"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["strategies"]["none"]["breakdown"]["parameters"] == 3 * 4 * (2**30 + 2**15)
