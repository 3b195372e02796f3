"""Does checkpoint do what torch's does, on programs that nobody wrote? Random segments, run by both and compared."""

import functools
import warnings
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint as theirs
from hypothesis import example, given, settings
from torch import nn

import ckptlib as ck


class Segment(NamedTuple):
    """One checkpoint: its options, how it is called, and what it does, step by step."""

    reentrant: bool
    preserve: bool
    early_stop: bool
    keyword: bool  # the second tensor comes as a keyword argument
    extra: bool  # a number, a list and a None come in and go out too
    body: tuple


class Weights(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.other = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.norm = nn.BatchNorm1d(4)


def _inplace(m, x, y):
    return (x * 1).relu_().mul_(2), y


def _no_grad(m, x, y):
    with torch.no_grad():
        z = m.linear(x)
    return x * z, y


def _autocast(m, x, y):
    # Without the cache: torch puts an autocast of its own around the second run, so two of ours share a cast weight
    # there which they did not share in the first run, and its gradient is summed in bfloat16.
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return m.linear(x).float(), y


def _raise(m, x, y):
    raise ZeroDivisionError("in the segment")


STEPS = {
    "linear": lambda m, x, y: (m.linear(x), y),
    "other": lambda m, x, y: (m.other(x) + x, y),
    "gelu": lambda m, x, y: (F.gelu(x), y),
    "sin": lambda m, x, y: (x.sin(), y.cos()),
    "mix": lambda m, x, y: (x * y, y),
    "swap": lambda m, x, y: (y, x),
    "softmax": lambda m, x, y: (x.softmax(-1), y),
    "dropout": lambda m, x, y: (F.dropout(x, 0.5), y),
    "norm": lambda m, x, y: (m.norm(x), y),
    "view": lambda m, x, y: (x.t().reshape(2, 8)[:, 2:6].repeat(2, 1).exp().clamp(max=3), y),
    "inplace": _inplace,
    "no_grad": _no_grad,
    "autocast": _autocast,
    "detach": lambda m, x, y: (x * 2, y.detach()),
    "clone": lambda m, x, y: (x.clone(), y),
    "raise": _raise,
}


def segments(bodies):
    flags = st.booleans()
    return st.builds(Segment, flags, st.sampled_from([True, True, True, False]), flags, flags, flags, bodies)


names = st.sampled_from(sorted(set(STEPS) - {"raise"}) * 3 + ["raise"])
bodies = st.recursive(
    st.lists(names, min_size=1, max_size=4).map(tuple),
    lambda inner: st.lists(names | segments(inner), min_size=1, max_size=4).map(tuple),
    max_leaves=5,
)


def run(body, checkpoint, m, x, y, calls):
    for i, step in enumerate(body):
        if isinstance(step, str):
            x, y = STEPS[step](m, x, y)
        else:
            x, y = run_segment(step, checkpoint, m, x, y, calls, i)
    return x, y


def run_segment(segment, checkpoint, m, x, y, calls, place):
    def fn(x, y, *extra):
        calls.append(place)
        return *run(segment.body, checkpoint, m, x, y, calls), *extra

    fn.__qualname__ = "segment"
    way = functools.partial(checkpoint, fn, x, use_reentrant=segment.reentrant, preserve_rng_state=segment.preserve)
    way = way if segment.reentrant else functools.partial(way, early_stop=segment.early_stop)
    extra = (3, None, "text") if segment.extra else ()
    x, y, *extra_out = way(y=y) if segment.keyword and not extra else way(y, *extra)
    assert tuple(extra_out) == extra
    return x, y


def backward_pass(how, out, x, y):
    loss = sum(t.float().square().sum() for t in out[: 1 if how == "part" else 2])
    if how == "grad":
        return torch.autograd.grad(loss, [x], allow_unused=True)
    if how == "twice":
        loss.backward(retain_graph=True)
    if how == "order 2":
        (dx,) = torch.autograd.grad(loss, [x], create_graph=True)
        loss = dx.square().sum()
    loss.backward()
    return ()


def outcome(body, checkpoint, how, needs):
    """All that can be seen of one step: an error's class, or values, gradients, buffers, random numbers, calls."""
    torch.manual_seed(3)
    m, calls, found = Weights(), [], []
    x, y = (torch.randn(4, 4, requires_grad=need) for need in needs)
    try:
        out = run(body, checkpoint, m, x, y, calls)
        found += [*out, *backward_pass(how, out, x, y)]
    except (RuntimeError, ValueError, ZeroDivisionError) as error:
        found.append(type(error).__name__)
    found += [x.grad, y.grad, *(p.grad for p in m.parameters()), *m.buffers(), torch.rand(1)]
    return [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in found], calls


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
    return type(a) is type(b) and a == b


ways = st.sampled_from(["all", "part", "grad", "twice", "order 2"])
needs = st.sampled_from([(True, True), (True, False), (False, True), (False, False)])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(bodies=segments(bodies).map(lambda s: (s,)) | bodies, how=ways, needs=needs)
@example(bodies=(Segment(False, True, True, True, False, ("dropout", "norm", "mix")),), how="twice", needs=(True, True))
def test_a_random_program_ends_as_it_does_with_torchs(bodies, how, needs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, expected_calls = outcome(bodies, theirs.checkpoint, how, needs)
        found, calls = outcome(bodies, ck.checkpoint, how, needs)
    assert len(found) == len(expected) and all(map(same, found, expected)), (found, expected)
    assert calls == expected_calls


@settings(max_examples=25, deadline=None)
@given(bodies=segments(bodies).map(lambda s: (s, "gelu", s)), how=ways, needs=needs)
def test_a_random_program_keeps_the_bytes_that_it_keeps_with_torchs(bodies, how, needs):
    def bytes_of(checkpoint):
        measured = ck.measure(lambda: outcome(bodies, checkpoint, how, needs))
        return measured.forward_peak, measured.peak

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, found = bytes_of(theirs.checkpoint), bytes_of(ck.checkpoint)
    assert found <= expected


def test_the_programs_are_not_all_errors():
    """Guards the tests above: with most steps a program runs to its end."""
    for name in set(STEPS) - {"raise"}:
        body = (Segment(False, True, True, False, True, (name, "sin")),)
        found, calls = outcome(body, ck.checkpoint, "all", (True, True))
        assert isinstance(found[0], torch.Tensor) and len(calls) == 2, name


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_an_interrupted_segment_leaves_nothing_behind(use_reentrant):
    def fn(x):
        torch.rand(1)
        raise KeyboardInterrupt

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(KeyboardInterrupt):
        ck.checkpoint(fn, x, use_reentrant=use_reentrant)
    assert torch.is_grad_enabled() and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    ck.checkpoint(torch.exp, x, use_reentrant=use_reentrant).sum().backward()
    assert torch.equal(x.grad, x.exp())
