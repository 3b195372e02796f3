"""Are the bytes of models that nobody here wrote those of torch's own record, and the same on fake tensors?"""

import pytest
import torch
from models_of_others import ALL

from ckptlib.remember.measurement import measure
from ckptlib.remember.user_models import Training

NUMBERS = 16  # bytes; Python numbers that meet a tensor are tensors of 8 bytes for the time of one op


def allocator_record(step) -> int:
    """The peak in bytes above the start, as the CPU's allocator told torch.profiler. Nothing of ours runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        loss = step()
    del loss
    events = list(profile.profiler.kineto_results.experimental_event_tree())
    found = []
    while events:
        event = events.pop()
        events += event.children
        if event.tag == torch._C._profiler._EventType.Allocation:
            found.append((event.start_time_ns, event.extra_fields.alloc_size))
    now = peak = 0
    for _, nbytes in sorted(found):
        now += nbytes
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize("name", ALL)
def test_the_peak_is_the_allocators_own(name):
    """But for the hidden memory of kernels, which no op sees; `hidden=True` lists it."""
    torch.manual_seed(0)
    training = Training(*ALL[name]())
    step = training.passes()
    peak = allocator_record(step)
    training.model.zero_grad()
    result = measure(step, hidden=True)
    start = result.timeline.total(-1)  # the model was there before
    inside = max((h.nbytes for h in result.hidden), default=0) + NUMBERS
    assert 0 <= peak - (result.peak - start) <= inside


@pytest.mark.parametrize("name", ALL)
def test_fake_runs_and_real_runs_agree(name):
    """transformers looks at values to do without a mask, which it cannot if they are fake; "eager" has one always."""
    options = {"attention": "eager"} if name in ("gpt2", "llama") else {}
    real, fake = (
        measure(lambda: Training(*ALL[name](**options)).passes(), "sim:cuda", fake=fake, builds=True)
        for fake in (False, True)
    )
    assert (real.peak, real.forward_peak, real.by_category) == (fake.peak, fake.forward_peak, fake.by_category)
    assert real.reserved == fake.reserved


@pytest.mark.parametrize("name", ["gpt2", "tied"])
def test_tied_weights_count_once(name):
    training = Training(*ALL[name]())
    result = measure(training.passes())
    assert result.by_category["parameter"] == sum(p.nbytes for p in training.model.parameters())
