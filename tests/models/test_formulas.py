"""Formulas against bytes and FLOPs measured on fake tensors, and against the figures that were published."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

import ckptlib as ck
from ckptlib.cuda.gpus import at_release, preset
from ckptlib.cuda.op_choice.cuda_dispatch import as_cuda
from ckptlib.errors import CkptError
from ckptlib.fitting.batch_rescaling import replayed
from ckptlib.fitting.peak_windows import parts, windows
from ckptlib.fitting.three_block_run import measured_block
from ckptlib.fitting.transformer_step import Setting
from ckptlib.models import formulas
from ckptlib.models.configs import (
    CONFIGS,
    GPT2_XL,
    GPT2_XL_SWIGLU,
    GPT3_175B,
    LLAMA3_8B,
    LLAMA3_70B,
    LLAMA3_405B,
    MT_NLG_530B,
    Config,
    LlamaConfig,
    named,
)
from ckptlib.models.transformer import Block, Llama, LlamaAttention, LlamaBlock, build, causal_mask, rope, rope_tables

HALF = torch.bfloat16
GPU = at_release(preset("a100"), "2.13")  # where RMSNorm is one kernel
GPTS = {"gpt2-xl": GPT2_XL, "gpt3": GPT3_175B, "mt-nlg": MT_NLG_530B}
LLAMAS = [GPT2_XL_SWIGLU, LLAMA3_8B, LLAMA3_70B, LLAMA3_405B]
TINY = LlamaConfig(layers=2, width=32, heads=4, tokens=16, vocabulary=50, kv_heads=2, ffn=48)
TINY_GPT = Config(layers=2, width=32, heads=4, tokens=16, vocabulary=50)


# ---- parameters -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt2-xl", 1_557_611_200),
        ("gpt2-xl-swiglu", 2_127_057_600),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
        ("gpt3-175b", 174.6),  # billions, as published by Narayanan et al. 2021 (arXiv 2104.04473), table 1
        ("mt-nlg-530b", 529.6),
    ],
)
def test_parameter_counts(name, count):
    config = named(name)
    with torch.device("meta"):
        model = build(config)
    assert sum(p.numel() for p in model.parameters()) == config.parameters
    assert count in (config.parameters, round(config.parameters / 1e9, 1))


def test_names():
    assert named("GPT2-XL") is GPT2_XL and named(TINY) is TINY
    with pytest.raises(CkptError, match="no model 'gpt5': expected a Config or one of gpt2-xl"):
        named("gpt5")


# ---- bytes: GPT -----------------------------------------------------------------------------------------------------
def run_block(config, batch=1, dtype=HALF, recompute="none", fused=False):
    def run():
        x = torch.randn(config.tokens, batch, config.width, dtype=dtype, requires_grad=True)
        mask = causal_mask(config.tokens, dtype)
        if isinstance(config, LlamaConfig):
            tables = (table.to(dtype) for table in rope_tables(config.tokens, config.head_width))
            return LlamaBlock(config, fused, recompute).to(dtype)(x, mask, *tables)
        return Block(config, fused, recompute).to(dtype)(x, mask)

    return run


def rows_of(fn):
    return [row for row in ck.saved_tensors(fn, fake=True) if row.kind != "parameter"]


@pytest.mark.parametrize("config", GPTS.values(), ids=GPTS)
def test_every_term_is_a_storage_that_autograd_keeps(config):
    """Each term of the formula against the rows of `saved_tensors`, matched by who saved them."""
    s, h, a = config.tokens, config.width, config.heads
    found = {}
    for row in rows_of(run_block(config)):
        found.setdefault((row.module.rpartition("Block.")[2] or row.module, row.op, row.nbytes), []).append(row)
    sizes = sorted(row.nbytes for rows in found.values() for row in rows if row.nbytes > 4 * s)
    t = formulas.gpt_terms(config)
    by_storage = [t["LayerNorm inputs"] // 2] * 2 + [t["Q and K"] + t["V"]]  # Q, K and V are one storage of 6sbh
    by_storage += [n for name, n in t.items() if name not in ("LayerNorm inputs", "Q and K", "V")]
    assert sizes == sorted(by_storage)
    assert sum(t.values()) == 34 * s * h + 5 * a * s * s == formulas.layer_nbytes(config)


@pytest.mark.parametrize(("part", "coefficients"), [("attention", (11, 5)), ("mlp", (19, 0)), ("norm", (4, 0))])
def test_parts_of_the_formula(part, coefficients):
    names = {
        "attention": "QKV input,Q and K,V,softmax output,softmax dropout mask,softmax dropout output,projection input,"
        "attention dropout mask",
        "mlp": "MLP input,GELU input,GELU output,MLP dropout mask",
        "norm": "LayerNorm inputs",
    }[part].split(",")
    terms = [t for t in formulas.TERMS if t.name in names]
    assert sum(t.coefficient for t in terms if not t.squared) == coefficients[0]
    assert sum(t.coefficient for t in terms if t.squared) == coefficients[1]


@pytest.mark.parametrize("config", GPTS.values(), ids=GPTS)
@pytest.mark.parametrize("strategy", formulas.STRATEGIES)
def test_strategies_keep_what_the_formulas_say(config, strategy):
    """Measured as bytes alive between forward and backward, in a model of two layers: the difference to one layer."""

    def alive(layers):
        def build_step():
            blocks = [Block(config, recompute=strategy).to(HALF) for _ in range(layers)]
            x = torch.randn(config.tokens, 1, config.width, dtype=HALF, requires_grad=True)
            mask = causal_mask(config.tokens, HALF)

            def step():
                y = x
                for block in blocks:
                    y = (
                        torch.utils.checkpoint.checkpoint(block, y, mask, use_reentrant=False)
                        if strategy == "full"
                        else block(y, mask)
                    )
                return y

            return step

        m = ck.measure(build_step, fake=True, builds=True)
        return sum(c.nbytes for c in m.timeline.alive(len(m.timeline.changes) - 1) if c.owner.category == "activation")

    statistics = 0 if strategy == "full" else 8 * config.tokens
    measured = alive(2) - alive(1)
    rng = measured - formulas.layer_nbytes(config, strategy=strategy) - statistics
    assert 0 <= rng <= 10_000, "no more than the generator's state, which a checkpoint keeps, too"


def test_published_totals():
    def gb(config, strategy):
        return formulas.activation_nbytes(config, strategy=strategy) / 1e9

    assert round(gb(GPT2_XL, "none"), 1) == 9.0
    assert [round(gb(GPT3_175B, s), 1) for s in ("none", "selective")] == [275.4, 82.1]
    assert [round(gb(MT_NLG_530B, s), 1) for s in ("none", "selective")] == [431.6, 149.7]
    assert round(gb(GPT3_175B, "full"), 2) == 4.83
    assert round(gb(MT_NLG_530B, "full"), 2) == 8.81
    saved = [100 * (1 - gb(c, "selective") / gb(c, "none")) for c in (GPT3_175B, MT_NLG_530B)]
    assert [round(percent, 1) for percent in saved] == [70.2, 65.3]


@pytest.mark.parametrize("t", [1, 2, 4, 8])
@pytest.mark.parametrize("config", [GPT3_175B, MT_NLG_530B])
def test_tensor_and_sequence_parallelism(config, t):
    s, h, a = config.tokens, config.width, config.heads
    sbh = s * h
    assert formulas.layer_nbytes(config, tensor_parallel=t) == sbh * 10 + (sbh * 24 + 5 * a * s * s) // t
    with_sequence = {"tensor_parallel": t, "sequence_parallel": True}
    assert formulas.layer_nbytes(config, **with_sequence) == (sbh * 34 + 5 * a * s * s) // t
    assert formulas.layer_nbytes(config, strategy="selective", **with_sequence) == sbh * 34 // t
    assert formulas.layer_nbytes(config, strategy="full", tensor_parallel=t) == 2 * sbh
    with pytest.raises(CkptError, match="'some', expected one of none, selective, full"):
        formulas.layer_nbytes(config, strategy="some")


def test_what_the_sources_say():
    gib = 2**30
    assert round(formulas.probabilities_nbytes(GPT2_XL_SWIGLU) / 1e9, 2) == 5.03  # source 001: "2.27 GB" for it all
    assert round(formulas.training_state_nbytes(GPT2_XL_SWIGLU) / gib, 2) == 31.70  # source 001: "Parameters"
    hidden = 2 * LLAMA3_405B.layers * 4 * LLAMA3_405B.width * 4096  # source 004: "one layer's activations"
    assert hidden == 63 * gib and hidden / LLAMA3_405B.layers == gib / 2
    at_4096 = formulas.llama_terms(replace(LLAMA3_405B, tokens=4096), fused=True)
    real = sum(at_4096[name] for name in ("gate", "SiLU of gate", "up", "down input"))
    assert real == 4 * 2 * 53248 * 4096 and round(real / gib, 3) == 1.625  # what one real layer's SwiGLU keeps


# ---- bytes: Llama ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dtype", "fused"),  # fused in float32 is another kernel on CUDA, which pads its statistics: the formula is flash's
    [(HALF, False), (HALF, True), (torch.float32, False)],
    ids=["half, plain", "half, fused", "float32, plain"],
)
@pytest.mark.parametrize("config", LLAMAS, ids=["gpt2-xl-swiglu", "8b", "70b", "405b"])
def test_a_llama_layer_keeps_what_the_formula_says(config, fused, dtype):
    config = replace(config, tokens=1024)
    with as_cuda(GPU):
        saved = ck.saved_tensors(run_block(config, dtype=dtype, fused=fused), fake=True)
    tables = {(config.tokens, 1, 1, config.head_width)}  # cosines and sines: shared by all layers
    rows = [row for row in saved if row.kind != "parameter" and row.shape not in tables]
    small = [row for row in rows if row.nbytes <= 64]  # the fused kernel's seed and offset
    expected = formulas.llama_terms(config, fused=fused, itemsize=dtype.itemsize)
    assert sum(row.nbytes for row in rows) - sum(row.nbytes for row in small) == sum(expected.values())


# ---- FLOPs ----------------------------------------------------------------------------------------------------------
def counted(config, strategy, batch=1):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model = build(config, recompute=strategy)
        ids = torch.randint(config.vocabulary, (config.tokens, batch))
        with FlopCounterMode(display=False) as counter:
            F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("strategy", formulas.STRATEGIES)
def test_flops_are_those_that_run(strategy):
    config = replace(GPT3_175B, layers=2)
    flops = formulas.model_flops(config, batch=2) + formulas.recomputed_flops(config, 2, strategy)
    # A checkpoint stops once it has what backward needs: after softmax and dropout, so attention's second product, half
    # of its FLOPs, is not run again. A block ends with a dropout, whose mask comes after the last product.
    early = formulas.recomputed_flops(config, 2, "selective") // 2 if strategy == "selective" else 0
    assert counted(config, strategy, batch=2) == flops - early


def test_published_flops():
    def more(config, flops):
        return round(100 * (flops / formulas.model_flops(config) - 1), 2)

    assert more(GPT3_175B, formulas.published_selective_flops(GPT3_175B)) == 2.69
    assert more(MT_NLG_530B, formulas.published_selective_flops(MT_NLG_530B)) == 1.64
    # What is really run again is a third of that ...
    for config, percent in ((GPT3_175B, 0.90), (MT_NLG_530B, 0.55)):
        assert more(config, formulas.model_flops(config) + formulas.recomputed_flops(config, 1, "selective")) == percent
        assert 32 < more(config, formulas.model_flops(config) + formulas.recomputed_flops(config, 1, "full")) < 33.4


def test_the_closed_form_of_model_flops():
    for config in GPTS.values():
        s, h, layers, v = config.tokens, config.width, config.layers, config.vocabulary
        closed = 72 * layers * s * h * h * (1 + s / (6 * h) + v / (12 * h * layers))
        assert formulas.model_flops(config) == pytest.approx(closed, rel=1e-12)


# ---- the Llama itself -----------------------------------------------------------------------------------------------
def test_plain_and_fused_llamas_compute_the_same():
    plain, fused = Llama(TINY), Llama(TINY, fused=True)
    fused.load_state_dict(plain.state_dict())
    ids = torch.randint(50, (16, 3))
    torch.testing.assert_close(plain(ids), fused(ids))


def test_shared_keys_are_repeated_keys():
    """Grouped attention against torch's own on keys and values repeated for every head."""
    attention = LlamaAttention(TINY, fused=False)
    q, k, v = torch.randn(16, 3, 4, 8), torch.randn(16, 3, 2, 8), torch.randn(16, 3, 2, 8)
    y = attention.attend(q, k, v, causal_mask(16, q.dtype))
    k, v = (x.repeat_interleave(2, dim=2) for x in (k, v))
    reference = F.scaled_dot_product_attention(*(x.permute(1, 2, 0, 3) for x in (q, k, v)), is_causal=True)
    torch.testing.assert_close(y, reference.permute(2, 0, 1, 3))


def test_rope_depends_on_distance_only():
    cos, sin = rope_tables(32, 8)
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    q, k = (rope(x.expand(32, 1, 1, 8), cos, sin).squeeze() for x in (q, k))
    scores = q @ k.t()
    for distance in (0, 1, 7):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(q.norm(dim=-1), q[0].norm().expand(32))


def test_llama_is_causal():
    model, ids = Llama(TINY), torch.randint(50, (16, 1))
    changed = ids.clone()
    changed[10:] = 7
    torch.testing.assert_close(model(ids)[:10], model(changed)[:10])


@pytest.mark.parametrize("config", [TINY, TINY_GPT], ids=["llama", "gpt"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputation_changes_no_gradient(config, fused, recompute):
    plain, other = build(config, fused), build(config, fused, recompute)
    other.load_state_dict(plain.state_dict())
    ids = torch.randint(50, (16, 3))
    found = []
    for model in (plain, other):
        torch.manual_seed(3)
        model(ids).logsumexp(-1).sum().backward()
        found.append([p.grad for p in model.parameters()])
    for mine, reference in zip(found[1], found[0], strict=True):
        assert torch.equal(mine, reference)


def test_every_config_is_listed_once():
    assert len(set(CONFIGS.values())) == len(CONFIGS) == 7


@pytest.mark.parametrize("config", [TINY, TINY_GPT], ids=["llama", "gpt"])
def test_flops_of_attention_run_again_are_those_that_run(config):
    flops = formulas.model_flops(config, batch=2)
    assert counted(config, "none", batch=2) == flops
    again = config.layers * formulas.attention_again_flops(config, batch=2)
    assert counted(config, "selective", batch=2) == flops + again


@pytest.mark.slow
@pytest.mark.parametrize("config", LLAMAS, ids=["gpt2-xl-swiglu", "8b", "70b", "405b"])
def test_llama_strategies_keep_what_the_formulas_say(config):
    """A block of many: selective drops the softmax output, full keeps the block's input and nothing else."""
    config = replace(config, tokens=1024)
    at = Setting(config, 1, "bf16", False, GPU)
    terms = formulas.llama_terms(config)
    assert measured_block(at, "selective").xbar == sum(terms.values()) - terms["softmax output"]

    def kept(layers):
        """Alive when the head begins, all blocks to be run again. Parameters do not count."""
        model = replace(at, config=replace(config, layers=layers))
        line, ops = replayed(model, "none", layers)
        return parts(line, windows(line, ops, layers)["head"].first - 1, config)["activations"]

    assert kept(3) - kept(2) == 2 * 1024 * config.width
