"""Selective checkpoints against plain autograd's gradients, and their bytes and FLOPs against hand counts."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint
from torch.utils.flop_counter import FlopCounterMode

import ckptlib as ck
from ckptlib.errors import CkptError
from ckptlib.models.transformer import Block, Config, causal_mask
from ckptlib.recompute.checkpoint import checkpoint as ours
from ckptlib.recompute.op_costs import Flops, segment_costs
from ckptlib.recompute.policy_report import FULL, NONE, policy_report
from ckptlib.recompute.selective import PolicyError, by_budget, by_module, by_op, selective
from ckptlib.torch_internals import dispatch_modes

aten = torch.ops.aten
CONFIG = Config(layers=1, width=64, heads=4, tokens=32, vocabulary=100)
T, D, A = CONFIG.tokens, CONFIG.width, CONFIG.heads


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen, self.act, self.narrow = nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)

    def forward(self, x):
        return self.narrow(self.act(self.widen(x)))


def make(fused=False):
    block = Block(CONFIG, fused)
    return block, (torch.randn(T, 2, D, requires_grad=True), causal_mask(T, torch.float32))


def policies(block, args):
    return {
        "by op": by_op(aten.addmm.default),
        "several ops": [aten.addmm.default, aten.baddbmm.default, aten._softmax.default],
        "by module": by_module(block, "attention.*", "widen"),
        "by budget": by_budget(100_000, block, *args),
        "a function": lambda ctx, op, *a, **k: op is aten.gelu.default,
        "everything": lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_SAVE,
    }


BY_RESULT = pytest.mark.needs_torch("2.12")


@pytest.mark.parametrize(
    "name",
    [
        *("by op", "several ops", "a function", "everything"),
        *(pytest.param(name, marks=BY_RESULT) for name in ("by module", "by budget")),
    ],
)
@pytest.mark.parametrize("fused", [False, True])
def test_gradients_are_autograds_own(name, fused):
    torch.manual_seed(0)
    block, args = make(fused)
    inputs = [args[0], *block.parameters()]
    torch.manual_seed(1)
    reference = torch.autograd.grad(block(*args).square().sum(), inputs)
    policy = policies(block, args)[name]
    if fused and name == "several ops":
        policy = policy[:1]
    torch.manual_seed(1)
    context = selective(policy)
    out = checkpoint(block, *args, use_reentrant=False, context_fn=context)
    for mine, theirs in zip(torch.autograd.grad(out.square().sum(), inputs), reference, strict=True):
        assert torch.equal(mine, theirs)
    assert context.saved > 0
    assert not block.widen._forward_hooks and not block.widen._forward_pre_hooks


@BY_RESULT
def test_one_context_serves_many_segments():
    blocks = [Mlp() for _ in range(3)]
    x = torch.randn(4, 16, requires_grad=True)
    context = selective(by_budget(4 * 64 * 4, blocks[0], x))
    for _ in range(2):
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=False, context_fn=context)
        y.sum().backward()
    assert context.saved == 2 * 3


# ---- policies that can never match ----------------------------------------------------------------------------------
def run(policy, module=None):
    return checkpoint(module or Mlp(), torch.randn(4, 16), use_reentrant=False, context_fn=selective(policy))


def test_what_was_saved_is_freed_with_the_graph():
    """And not when Python's collector finds a cycle: on a GPU that would be memory that nobody uses."""
    block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    seen: list[weakref.ref] = []

    def decide(ctx, op, *args, **kwargs):
        seen.extend(weakref.ref(arg) for arg in args if isinstance(arg, torch.Tensor))
        return op == aten.addmm.default

    gc.collect()
    gc.disable()
    try:
        checkpoint(block, torch.randn(4, 8), use_reentrant=False, context_fn=selective(decide)).sum().backward()
        kept = [ref() for ref in seen if ref() is not None]
    finally:
        gc.enable()
    parameters = {p.data_ptr() for p in block.parameters()}
    assert len(seen) > 4 and all(t.data_ptr() in parameters for t in kept)


def test_a_packet_is_refused_at_once():
    with pytest.raises(CkptError, match=r"aten\.mm never matches.*aten\.mm\.default, aten\.mm\.out"):
        by_op(aten.mm)
    with pytest.raises(CkptError, match="never matches"):
        selective([aten.addmm.default, aten.mm])


def test_an_op_that_never_runs_names_its_neighbour():
    with pytest.raises(CkptError, match=r"aten\.mm\.default never ran in this segment\. Nearest to it: aten\.addmm"):
        run(by_op(aten.mm.default))


def test_a_function_that_compares_with_packets():
    with pytest.raises(CkptError, match="Does it ask for a packet, aten.mm"):
        run(lambda ctx, op, *args, **kwargs: op in (aten.mm, aten.addmm))


@BY_RESULT
def test_modules_that_do_not_exist_or_do_not_run():
    with pytest.raises(CkptError, match="Mlp has no module 'widden'. Meant: widen"):
        by_module(Mlp(), "widden")
    with pytest.raises(PolicyError, match="no module widen ran in this segment"):
        run(by_module(Mlp(), "widen"))  # another Mlp's


def test_offload_policies_are_refused():
    with pytest.raises(CkptError, match="MUST_CPU_OFFLOAD for .*eager torch recomputes"):
        run(lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_CPU_OFFLOAD)


@pytest.mark.parametrize("answer", [1, 0, None, "MUST_SAVE", torch.tensor(True), aten.addmm.default])
def test_answers_that_torch_takes_for_recompute_are_refused(answer):
    def policy(ctx, op, *args, **kwargs):
        return answer if op is aten.addmm.default else op is aten.gelu.default

    message = rf"the policy returned {re.escape(repr(answer))} for aten.addmm.default, expected a CheckpointPolicy"
    with pytest.raises(PolicyError, match=message):
        run(policy)
    with pytest.raises(
        PolicyError, match="Does it have a branch without return" if answer is None else "Return Checkpoint"
    ):
        run(policy)


@pytest.mark.parametrize("way", [checkpoint, ours], ids=["torch's", "ours"])
def test_after_an_error_of_the_policy_nothing_of_it_is_left(way):
    """Before torch 2.13, its own checkpoint leaves the first context open as long as anybody holds such an error."""

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        raise ZeroDivisionError("mine")

    asked, model, x = [], Mlp(), torch.randn(4, 16, requires_grad=True)
    with pytest.raises(ZeroDivisionError, match="mine") as held:
        way(model, x, use_reentrant=False, context_fn=selective(policy))
    assert held.traceback[-1].name == "policy"
    assert dispatch_modes() == []
    way(model, x, use_reentrant=False, context_fn=selective(by_op(aten.addmm.default))).sum().backward()
    assert len(asked) == 1


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_bool_keeps_what_it_says(kind):
    model, x = Mlp(), torch.randn(4, 16, requires_grad=True)
    context = selective(lambda ctx, op, *args, **kwargs: kind(op is aten.addmm.default))
    found = flops(lambda: checkpoint(model, x, use_reentrant=False, context_fn=context).sum().backward())
    assert context.saved == 2 and found == flops(lambda: model(x).sum().backward())  # no product runs again


@BY_RESULT
def test_a_random_op_is_not_recomputed_after_one_that_is_saved():
    """The saved one draws nothing in the second run, so the next draws its numbers: another mask, without a word."""
    block, args = make()
    first = iter([True])
    for policy in (
        by_module(block, "attention"),
        lambda ctx, op, *a, **k: op is aten.native_dropout.default and next(first, False),
    ):
        with pytest.raises(PolicyError, match="native_dropout.default is recomputed, but .* before it is saved"):
            checkpoint(block, *args, use_reentrant=False, context_fn=selective(policy))
    for policy in (by_op(aten.native_dropout.default), by_op(aten.addmm.default)):  # all are saved, or none
        checkpoint(block, *args, use_reentrant=False, context_fn=selective(policy)).sum().backward()


@pytest.mark.parametrize("wrong", [lambda: by_op(), lambda: by_op("mm"), lambda: by_op(aten.detach.default)])
def test_other_mistakes_with_ops(wrong):
    with pytest.raises(CkptError):
        wrong()


@BY_RESULT
def test_other_mistakes():
    with pytest.raises(CkptError, match="a policy is by_op"):
        selective(3)
    with pytest.raises(CkptError, match="by_module needs at least one module"):
        by_module(Mlp())
    x = torch.randn(4, 16)
    with pytest.raises(CkptError, match="saves nothing, because the smallest result takes 1,024 B"):
        by_budget(1023, Mlp(), x)  # the last product's 256 B would fit, but early stop leaves it out
    with pytest.raises(CkptError, match="a budget of nan B saves nothing"):
        by_budget(float("nan"), Mlp(), x)
    with pytest.raises(CkptError, match="nothing in this segment has FLOPs"):
        by_budget(1000, torch.sin, x)
    policy = by_budget(1024, Mlp(), x)
    with pytest.raises(
        PolicyError, match="makes 256 B, but it was aten.addmm.default that makes 1,024 B when the budget"
    ):
        run(policy, nn.Sequential(nn.GELU(), nn.Linear(16, 16)))


def test_an_error_in_the_segment_is_not_replaced():
    def broken(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(by_op(aten.mm.default), broken)


# ---- what they cost -------------------------------------------------------------------------------------------------
def test_costs_of_a_segment_by_hand():
    costs = {c.op: c for c in segment_costs(Mlp(), torch.randn(4, 16)) if c.op is not aten.t.default}
    assert (costs[aten.gelu.default].flops, costs[aten.gelu.default].nbytes) == (0, 4 * 64 * 4)
    assert costs[aten.addmm.default].flops == 2 * 4 * 16 * 64


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_flops_of_fused_attention_on_the_cpu_by_hand(kv_heads):
    """Two matrix products in forward; in backward the first of them again, and two for each of the two."""
    q, k, v = (torch.randn(2, heads, 64, 32, requires_grad=True) for heads in (4, kv_heads, kv_heads))
    product = 2 * 2 * 4 * 64 * 64 * 32
    with Flops() as forward:
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads < 4)
    with Flops() as backward:
        y.backward(torch.ones_like(y))
    assert (forward.total, backward.total) == (2 * product, 5 * product)


@pytest.mark.parametrize("budget", [256, 300, 500, 740, 1024, 1500, 5000])
def test_a_budget_is_spent_in_the_best_way(budget):
    """Against all subsets."""
    model = nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 30), nn.Linear(30, 16))
    x = torch.randn(4, 16)
    costs = segment_costs(model, x)
    dear = [i for i, c in enumerate(costs) if c.flops and c.again]
    assert len(dear) == 3  # the last product is not run again: no saved tensor depends on it
    fitting = [s for n in range(5) for s in combinations(dear, n) if sum(costs[i].nbytes for i in s) <= budget]
    most = max(sum(costs[i].flops for i in s) for s in fitting)
    chosen = by_budget(budget, model, x).chosen
    assert sum(costs[i].nbytes for i in chosen) <= budget
    assert sum(costs[i].flops for i in chosen) == most


@BY_RESULT
def test_report_of_a_transformer_block():
    report = policy_report(
        make,
        addmm=lambda f, *args: by_op(aten.addmm.default),
        widen=lambda f, *args: by_module(f, "widen"),
        budget=lambda f, *args: by_budget(4 * T * 2 * D, f, *args),
        everything=lambda f, *args: lambda ctx, op, *a, **k: True,
    )
    n, tokens = 2, T * 2
    products = {"qkv": 3 * D, "proj": D, "widen": 4 * D, "narrow": D}
    linear = {name: 2 * tokens * D * out for name, out in products.items()} | {"narrow": 2 * tokens * 4 * D * D}
    attention = 2 * (2 * n * T * T * D)
    assert (report[FULL].saved, report[NONE].recomputed) == (0, 0)
    assert report[FULL].recomputed == sum(linear.values()) + attention
    assert report["addmm"].saved == 4 * tokens * sum(products.values())
    assert report["addmm"].recomputed == attention
    assert report["widen"].saved == 4 * tokens * 4 * D
    assert report["widen"].recomputed == report[FULL].recomputed - linear["widen"]
    # `narrow` is the dearest of the results that take T * N * D elements
    assert report["budget"].saved == 4 * tokens * D
    assert report["budget"].recomputed == report[FULL].recomputed - linear["narrow"]
    assert report["everything"].saved > report[NONE].saved and report["everything"].recomputed == 0
    assert "everything saves more than no checkpoint does" in str(report)


def test_a_report_takes_a_policy_as_it_is():
    ops = aten.addmm.default, aten.gelu.default
    report = policy_report(make, made=lambda f, *args: by_op(*ops), ready=by_op(*ops), several=list(ops))
    assert report["made"][1:] == report["ready"][1:] == report["several"][1:]
    with pytest.raises(CkptError, match=r"mine was called with the segment to make a policy, and made False\. If that"):
        policy_report(make, mine=lambda ctx, op, *args, **kwargs: op is aten.addmm.default)


@pytest.mark.parametrize(
    ("built", "found"),
    [(Mlp(), "Mlp;"), ((torch.ones(4, 16), Mlp()), "Tensor, Mlp;"), ((Mlp(), (), ()), "Mlp, tuple, tuple;")],
)
def test_a_report_of_something_else_than_a_segment_and_its_arguments(built, found):
    with pytest.raises(CkptError, match=rf"build returned {found} expected \(segment, inputs\)"):
        policy_report(lambda: built)


def test_the_pitfall_of_keeping_everything():
    """FACTS 5, item 10: all-PREFER_SAVE holds 3 MiB where no checkpointing holds 2."""

    def segment(x):
        return x.exp().sin().add(1).mul(2).sum()

    def build():
        return segment, (torch.randn(512, 512, requires_grad=True),)

    report = policy_report(build, all=lambda f, x: lambda ctx, op, *a, **k: CheckpointPolicy.PREFER_SAVE)
    assert report["all"].saved > report[NONE].saved == 2**20


@BY_RESULT
@pytest.mark.parametrize("way", [checkpoint, ours], ids=["torch's", "ours"])
def test_the_report_is_what_a_real_run_keeps_and_what_torchs_counter_counts(way):
    makers = {
        "op": lambda f, *x: by_op(aten.addmm.default),
        "module": lambda f, *x: by_module(f, "narrow"),
        "budget": lambda f, *x: by_budget(2048, f, *x),
        "no FLOPs": lambda f, *x: by_op(aten.gelu.default),
    }
    model, x = Mlp(), torch.randn(8, 16, requires_grad=True)
    for row in policy_report(lambda: (Mlp(), (torch.randn(8, 16, requires_grad=True),)), **makers):
        make = makers.get(row.policy)
        extra = {"context_fn": selective(make(model, x))} if make else {}

        def step(row=row, extra=extra):
            return model(x) if row.policy == NONE else way(model, x, use_reentrant=False, **extra)

        with ck.trace() as trace:
            out = step()
        freed = {e.storage for e in trace.events if e.kind == "free"}
        alive = [e.storage for e in trace.events if e.kind == "alloc" and e.storage not in freed]
        assert sum(trace.storages[i].nbytes for i in alive) - out.untyped_storage().nbytes() == row.saved, row
        assert flops(lambda: step().sum().backward()) - flops(lambda: model(x).sum().backward()) == row.recomputed


def flops(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@BY_RESULT
def test_a_module_that_checkpoints_selectively_can_be_copied_and_pickled():
    model, x = Mlp(), torch.randn(8, 16, requires_grad=True)
    for policy in (by_op(aten.addmm.default), by_module(model, "widen", "narrow"), by_budget(9000, model, x)):
        model.context = selective(policy)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            twin.context.saved = 0
            checkpoint(twin, x, use_reentrant=False, context_fn=twin.context).sum().backward()
            assert twin.context.saved == (1 if policy.__class__.__name__ == "_ByIndex" else 2), policy
