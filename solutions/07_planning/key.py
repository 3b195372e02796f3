"""What is known about wrong answers to assignment 7, and what to say to each."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import inf

from tasks import check, flops_of

import ckptlib as ck

# ---- Task 1: predict_peak ----

told = check.predict_peak.mistake


def segments(x, xbar, starts):
    """(inputs up to this segment's, this segment's own, bytes of everything in it) for each segment."""
    kept = 0
    for start, end in zip(starts, [*starts[1:], len(xbar)], strict=True):
        kept += x[start]
        yield kept, x[start], sum(xbar[start:end])


@told("Later checkpoints are gone when an earlier segment is reversed. Count only those up to this segment.")
def all_checkpoints(x, xbar, starts):
    return sum(x[start] for start in starts) + max(content for _, _, content in segments(x, xbar, starts))


@told("The chain's input x[0] is missing. It is always in memory, because it is the first segment's checkpoint.")
def no_chain_input(x, xbar, starts):
    return max(kept + content for kept, _, content in segments(x, xbar, starts)) - x[0]


@told("The segment's own input is missing. It is kept until the segment is reversed.")
def without_its_own(x, xbar, starts):
    return max(kept - own + content for kept, own, content in segments(x, xbar, starts))


@told("Only outputs were added up. While a segment is reversed, its stages keep everything: xbar, not x.")
def outputs_only(x, xbar, starts):
    return max(kept + content for kept, _, content in segments(x, x[1:], starts))


@told("Checkpoints are missing. The inputs of the earlier segments are still kept while this one is reversed.")
def largest_segment(x, xbar, starts):
    return max(content for _, _, content in segments(x, xbar, starts))


@told("Checkpoints are missing. The inputs of the earlier segments are still kept while this one is reversed.")
def own_checkpoint_only(x, xbar, starts):
    return max(own + content for _, own, content in segments(x, xbar, starts))


@told("Checkpoints are missing. The inputs of the earlier segments are still kept while this one is reversed.")
def first_checkpoint_only(x, xbar, starts):
    return x[0] + max(content for _, _, content in segments(x, xbar, starts))


@told("That is the peak of a run that keeps everything. At any time, all segments but one keep only their input.")
def stores_all(x, xbar, starts):
    return x[0] + sum(xbar)


@told("That is the moment when the last segment is reversed. Another segment may need more, so take the largest sum.")
def last_segment(x, xbar, starts):
    return [kept + content for kept, _, content in segments(x, xbar, starts)][-1]


@told("That is the moment when the first segment is reversed. Another segment may need more, so take the largest sum.")
def first_segment(x, xbar, starts):
    return [kept + content for kept, _, content in segments(x, xbar, starts)][0]


@told("The smallest of these sums was taken, but the peak is the largest.")
def least_of_all(x, xbar, starts):
    return min(kept + content for kept, _, content in segments(x, xbar, starts))


@told(
    "While a segment is reversed, all of its stages keep everything: take the sum of their xbar, not "
    "the largest of them."
)
def largest_in_each(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    found = zip(segments(x, xbar, starts), starts, ends, strict=True)
    return max(kept + max(xbar[start:end]) for (kept, _, _), start, end in found)


@told("A checkpoint is the input of a segment's first stage, x[start]. Here its output, x[start + 1], was counted.")
def output_of_start(x, xbar, starts):
    return x[0] + max(
        sum(x[start + 1] for start in starts[1:i]) + content
        for i, (_, _, content) in enumerate(segments(x, xbar, starts), 1)
    )


@told("The segment's output was added once more. It is in xbar already, as the output of the segment's last stage.")
def output_again(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    return max(kept + content + x[end] for (kept, _, content), end in zip(segments(x, xbar, starts), ends, strict=True))


@told("The segment's output was added once more. It is in xbar already, as the output of the segment's last stage.")
def output_again_but_the_last(x, xbar, starts):
    ends = [*starts[1:], None]
    return max(
        kept + content + (x[end] if end else 0)
        for (kept, _, content), end in zip(segments(x, xbar, starts), ends, strict=True)
    )


@told(
    "Outputs were added to xbar, which has them already: xbar is everything that a stage keeps, including its output."
)
def outputs_besides(x, xbar, starts):
    both = [content + out for content, out in zip(xbar, x[1:], strict=True)]
    return max(kept + content for kept, _, content in segments(x, both, starts))


INPUTS_BESIDES = (
    "All x of a segment were added to its xbar. Each of them is the output of the stage before, and is in that "
    "stage's xbar already. Only the segment's first input, x[start], is added."
)


@told(INPUTS_BESIDES)
def inputs_besides(x, xbar, starts):
    both = [content + size for content, size in zip(xbar, x, strict=False)]
    return max(kept - own + content for kept, own, content in segments(x, both, starts))


@told(INPUTS_BESIDES)
def inputs_besides_its_own(x, xbar, starts):
    both = [content + size for content, size in zip(xbar, x, strict=False)]
    return max(kept + content for kept, _, content in segments(x, both, starts))


@told("x[0] was added twice. It is the checkpoint of the first segment, and counts once.")
def chain_input_twice(x, xbar, starts):
    return x[0] + max(kept + content for kept, _, content in segments(x, xbar, starts))


@told("A checkpoint is the input of a segment's first stage, x[start]. Here its output, x[start + 1], was counted.")
def outputs_of_starts(x, xbar, starts):
    return max(kept + content for kept, _, content in segments(x[1:], xbar, starts))


@told("A checkpoint is the input of a segment's first stage, x[start]: here the first entries of x were added up.")
def first_entries(x, xbar, starts):
    return max(sum(x[:i]) + content for i, (_, _, content) in enumerate(segments(x, xbar, starts), 1))


@told(
    "It is the other way round: while a segment is reversed, earlier checkpoints are still there, and "
    "later ones are gone."
)
def later_checkpoints(x, xbar, starts):
    inputs = sum(x[start] for start in starts)
    return max(inputs - kept + own + content for kept, own, content in segments(x, xbar, starts))


@told("A segment ends where the next one starts. Here one stage of the next segment was added to it.")
def one_stage_more(x, xbar, starts):
    more = [*starts[1:], None]
    found = zip(segments(x, xbar, starts), more, strict=True)
    return max(kept + content + (0 if end is None else xbar[end]) for (kept, _, content), end in found)


@told("The last segment is missing. It goes from starts[-1] to the end of the chain.")
def without_the_last_segment(x, xbar, starts):
    return max([kept + content for kept, _, content in segments(x, xbar, starts)][:-1], default=0)


@told("Segments are reversed one after the other, so the peak is the largest of these sums, not all of them together.")
def all_segments_together(x, xbar, starts):
    return sum(kept + content for kept, _, content in segments(x, xbar, starts))


@told("The segments were taken to be equally long. `starts` says where each of them begins.")
def equally_long(x, xbar, starts):
    n, k = len(xbar), len(starts)
    return max(kept + content for kept, _, content in segments(x, xbar, [j * (n // k) for j in range(k)]))


# ---- Task 2: breaker ----

told = check.breaker.mistake


def peak(x, xbar, schedule=None):
    n = len(xbar)
    return (schedule or ck.sqrt(n)).cost(ck.Costs([1] * n, [1] * n, x, xbar, dx=[0] * (n + 1))).peak


def rewritten(x, xbar, stage, by=None):
    return [*xbar[:stage], x[stage + 1] if by is None else by, *xbar[stage + 1 :]]


def guilty(x, xbar):
    return min(range(len(xbar)), key=lambda stage: peak(x, rewritten(x, xbar, stage)))


def after(x, xbar, stage):
    return stage, peak(x, rewritten(x, xbar, stage))


@told("The stage is right. The peak is the one before it was rewritten. Compute it again with the smaller xbar.")
def peak_before(x, xbar):
    return guilty(x, xbar), peak(x, xbar)


@told("The stage is right, but that is by how much the peak falls. Return the peak afterwards.")
def the_fall(x, xbar):
    return guilty(x, xbar), peak(x, xbar) - after(x, xbar, guilty(x, xbar))[1]


@told("The stage is right, but it still keeps its output: its xbar becomes x[stage + 1], not 0.")
def keeps_nothing(x, xbar):
    return guilty(x, xbar), peak(x, rewritten(x, xbar, guilty(x, xbar), by=0))


@told("The output of stage i is x[i + 1]; x[i] is its input. A stage that is rewritten keeps its output.")
def keeps_its_input(x, xbar):
    peaks = [peak(x, rewritten(x, xbar, stage, by=x[stage])) for stage in range(len(xbar))]
    return peaks.index(min(peaks)), min(peaks)


@told(
    "More than one stage was rewritten: xbar itself was changed, and the stages before were left as they had become. "
    "Rewrite each in a copy of its own."
)
def in_place(x, xbar):
    peaks = []
    for stage in range(len(xbar)):
        xbar = rewritten(x, xbar, stage)
        peaks.append(peak(x, xbar))
    return peaks.index(min(peaks)), min(peaks)


@told("The stage is right. The peak is that of a run that keeps everything: it runs under ck.sqrt(n).")
def under_store_all(x, xbar):
    stage = guilty(x, xbar)
    return stage, peak(x, rewritten(x, xbar, stage), ck.store_all(len(xbar)))


@told("In the peak, gradients were counted. In this task they are free: dx=[0] * (n + 1).")
def with_gradients(x, xbar):
    n = len(xbar)
    costs = [ck.Costs([1] * n, [1] * n, x, rewritten(x, xbar, stage)) for stage in range(n)]
    peaks = [ck.sqrt(n).cost(prices).peak for prices in costs]
    return peaks.index(min(peaks)), min(peaks)


@told("The stage was counted from 1, but stages have the numbers 0 to n - 1.")
def from_one(x, xbar):
    stage, nbytes = after(x, xbar, guilty(x, xbar))
    return stage + 1, nbytes


HARMLESS = (
    "That is the layer that keeps most, but rewriting another one lowers the peak further, because the "
    "checkpoints that "
    "are in memory at the same time count as well. Rewrite each stage in turn, and see how far the peak falls."
)


@told(HARMLESS)
def largest_layer(x, xbar):
    return after(x, xbar, max(range(len(xbar)), key=xbar.__getitem__))


@told(HARMLESS)
def largest_layer_before(x, xbar):
    return max(range(len(xbar)), key=xbar.__getitem__), peak(x, xbar)


@told(
    "The segment is right, and this is the stage in it that keeps most. But a stage that is rewritten still keeps its "
    "output, so rewriting stage i frees xbar[i] - x[i + 1] bytes."
)
def largest_in_its_segment(x, xbar):
    k = round(len(xbar) ** 0.5)
    first = guilty(x, xbar) // k * k
    return after(x, xbar, max(range(first, first + k), key=xbar.__getitem__))


@told("That is the first stage of the right segment. Return the stage inside it that is to be rewritten.")
def its_segment(x, xbar):
    k = round(len(xbar) ** 0.5)
    return after(x, xbar, guilty(x, xbar) // k * k)


@told("The two numbers have changed places: the stage comes first, then the bytes.")
def bytes_first(x, xbar):
    return after(x, xbar, guilty(x, xbar))[::-1]


@told("That is the stage whose rewriting lowers the peak least. Take the smallest of the peaks.")
def least_helpful(x, xbar):
    return max(((stage, after(x, xbar, stage)[1]) for stage in range(len(xbar))), key=lambda found: found[::-1])


@told("These are the stage and the peak for a run that keeps everything. The chain runs under ck.sqrt(n).")
def all_under_store_all(x, xbar):
    everything = ck.store_all(len(xbar))
    peaks = [peak(x, rewritten(x, xbar, stage), everything) for stage in range(len(xbar))]
    return peaks.index(min(peaks)), min(peaks)


@told("ck.sqrt(n) makes k segments of k stages, where k = √n. Here every segment had three stages, whatever n is.")
def always_three(x, xbar):
    n = len(xbar)
    starts = range(0, n, 3)
    peaks = [max(a + c for a, _, c in segments(x, rewritten(x, xbar, stage), starts)) for stage in range(n)]
    return peaks.index(min(peaks)), min(peaks)


# ---- Task 3: first_choice ----

told = check.first_choice.mistake


def choice(keep=None, checkpoint=None, least=min):
    """One step of the recurrence, with one of its two terms replaced by a wrong one."""

    def first_choice(best, s, t, m, f, b, x, xbar):
        first = f[s] + best(s + 1, t, m - xbar[s]) + b[s]
        ways = [keep(best, s, t, m, f, b, x, xbar) if keep else first]
        for u in range(s + 1, t + 1):
            right = sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m)
            ways.append(checkpoint(best, s, t, m, f, b, x, xbar, u) if checkpoint else right)
        return least(ways)

    return first_choice


def swapped(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m) + best(s, u - 1, m - x[u])


def swapped_and_too_far(best, s, t, m, f, b, x, xbar, u):
    return swapped(best, s, t, m, f, b, x, xbar, u) + f[u]


def too_far(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s : u + 1]) + best(u, t, m - x[u]) + best(s, u - 1, m)


def charged_twice(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m - x[u])


def not_charged(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m) + best(s, u - 1, m)


def first_forward_only(best, s, t, m, f, b, x, xbar, u):
    return f[s] + best(u, t, m - x[u]) + best(s, u - 1, m)


def no_forwards(best, s, t, m, f, b, x, xbar, u):
    return best(u, t, m - x[u]) + best(s, u - 1, m)


def slower_part(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + max(best(u, t, m - x[u]), best(s, u - 1, m))


def right_after_u(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u + 1, t, m - x[u]) + best(s, u - 1, m)


def left_to_u(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u, m)


def charged_xbar(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - xbar[u]) + best(s, u - 1, m)


def charged_input_of_s(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - x[s]) + best(s, u - 1, m)


def one_short(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s : u - 1]) + best(u, t, m - x[u]) + best(s, u - 1, m)


def charged_input_before(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - x[u - 1]) + best(s, u - 1, m)


def backward_again(best, s, t, m, f, b, x, xbar, u):
    return sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) + b[s]


def keep_and_input(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m - xbar[s] - x[s]) + b[s]


def keep_and_output(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m - xbar[s] - x[s + 1]) + b[s]


def keep_but_output(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m - xbar[s] + x[s + 1]) + b[s]


def keep_for_x(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m - x[s + 1]) + b[s]


def keep_for_free(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m) + b[s]


def no_backward(best, s, t, m, f, b, x, xbar):
    return f[s] + best(s + 1, t, m - xbar[s])


WRONG_CHOICES = {
    "Both bugs are still there: the checkpoint is charged to the wrong part, and stage u runs once too often.": (
        choice(checkpoint=swapped_and_too_far)
    ),
    "The checkpoint at u is charged to the wrong part. It is in memory while u to t run; when s to u - 1 run again, "
    "it is gone.": choice(checkpoint=swapped),
    (
        "That is one forward too many: to reach the input of u, stages s to u - 1 run. Stage u belongs to "
        "the right part."
    ): (choice(checkpoint=too_far)),
    "The checkpoint is charged to both parts. When s to u - 1 run again it is gone, so they have all of m.": (
        choice(checkpoint=charged_twice)
    ),
    "The checkpoint at u takes no memory here. The part on the right has x[u] bytes less.": (
        choice(checkpoint=not_charged)
    ),
    "To reach the input of u, all stages from s to u - 1 have to run, not s alone.": choice(
        checkpoint=first_forward_only
    ),
    "The way to the checkpoint takes time as well. The forwards of s to u - 1 are missing.": choice(
        checkpoint=no_forwards
    ),
    "The part on the left ends at u - 1, because stage u was reversed with the part on the right.": (
        choice(checkpoint=left_to_u)
    ),
    "A checkpoint keeps an input, x[u]. xbar[u] is what stage u takes if it keeps everything.": (
        choice(checkpoint=charged_xbar)
    ),
    "The checkpoint is the input of u, so it takes x[u] bytes. The input of s is in memory already.": (
        choice(checkpoint=charged_input_of_s)
    ),
    "To keep everything of s takes xbar[s], not only its output.": choice(keep=keep_for_x),
    "To keep everything of s takes memory, so s + 1 to t have xbar[s] bytes less.": choice(keep=keep_for_free),
    "The backward of s is missing where everything of s is kept.": choice(keep=no_backward),
    "Only checkpoints were tried. Stage s may also keep everything.": (
        choice(keep=lambda best, s, t, m, f, b, x, xbar: f[s] + best(s + 1, t, m - xbar[s]) + b[s] if s == t else inf)
    ),
    "That is one forward too few: to reach the input of u, stages s to u - 1 run, u - 1 included.": (
        choice(checkpoint=one_short)
    ),
    "A checkpoint at u keeps the input of u, x[u], not x[u - 1].": choice(checkpoint=charged_input_before),
    "The backward of s was added to a checkpoint as well. There, best(s, u - 1, m) has it already.": (
        choice(checkpoint=backward_again)
    ),
    (
        "The input of s is in memory already, besides the m bytes. To keep everything of s takes xbar[s], "
        "not x[s] as well."
    ): (choice(keep=keep_and_input)),
    "The output of s is in xbar[s] already, but x[s + 1] was taken off m as well.": choice(keep=keep_and_output),
    "The output of s is a part of xbar[s], and stays in memory. All of xbar[s] comes off m, x[s + 1] included.": (
        choice(keep=keep_but_output)
    ),
    (
        "The two parts of a checkpoint run one after the other, so their times add up. The larger one alone "
        "is too little."
    ): (choice(checkpoint=slower_part)),
    "Stage u is left out. The right part begins at the checkpoint, with stage u.": choice(checkpoint=right_after_u),
    "The first way was taken, not the best one. Take the minimum over all ways.": choice(least=lambda ways: ways[0]),
    "The slowest way was taken. Take the minimum over all ways, not the maximum.": choice(least=max),
}


@told("A single stage takes memory as well. If m is less than xbar[s], the time is inf.")
def single_stage_for_free(best, s, t, m, f, b, x, xbar):
    return f[s] + b[s] if s == t else choice()(best, s, t, m, f, b, x, xbar)


@told(
    "A single stage keeps everything, and fits if m is at least xbar[s]. Its output is in xbar[s] already, and its "
    "input is in memory besides the m bytes."
)
def single_stage_never_fits(best, s, t, m, f, b, x, xbar):
    return inf if s == t else choice()(best, s, t, m, f, b, x, xbar)


for message, wrong in WRONG_CHOICES.items():
    told(message)(wrong)


@told("A checkpoint at t, the last stage, was not tried. u goes from s + 1 to t, t included.")
def without_the_last(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    for u in range(s + 1, t):
        ways.append(sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m))
    return min(ways)


@told(
    "This is the time if everything of s is kept, but a checkpoint takes less. Try every u from s + 1 to t, and take "
    "the minimum over all ways."
)
def kept_if_it_fits(best, s, t, m, f, b, x, xbar):
    kept = f[s] + best(s + 1, t, m - xbar[s]) + b[s]
    return kept if kept < inf else choice()(best, s, t, m, f, b, x, xbar)


@told("A checkpoint at s + 1 was not tried. u goes from s + 1 to t, s + 1 included.")
def without_the_first(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    for u in range(s + 2, t + 1):
        ways.append(sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m))
    return min(ways)


@told("Only checkpoints were tried. Stage s may also keep everything.")
def checkpoints_only(best, s, t, m, f, b, x, xbar):
    return choice(keep=lambda *args: inf)(best, s, t, m, f, b, x, xbar)


@told("The times of stages s to t alone count: the sums begin at stage s, not at stage 0.")
def from_the_first_stage(best, s, t, m, f, b, x, xbar):
    ways = [f[0] + best(s + 1, t, m - xbar[s]) + b[0]]
    ways += [sum(f[:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


@told("With u = s there is no shorter chain. u goes from s + 1 to t.")
def from_s(best, s, t, m, f, b, x, xbar):
    return min(best(s, t, m - x[s]), choice()(best, s, t, m, f, b, x, xbar))


@told("As many bytes as needed are enough. xbar[s] fits if m is at least that, so compare with >= and not with >.")
def strictly_more(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s] if m > xbar[s] else inf]
    for u in range(s + 1, t + 1):
        ways.append(sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) if m > x[u] else inf)
    return min(ways)


@told("You solved the shorter chains yourself. Ask best for their times.")
def solved_anew(best, s, t, m, f, b, x, xbar):
    @cache
    def time(s, t, m):
        return inf if m < 0 else choice()(time, s, t, m, f, b, x, xbar) if s <= t else 0

    return time(s, t, m)


# ---- Task 4: smallest_budget ----

told = check.smallest_budget.mistake


def smallest(x, xbar, allowed, *, both=max, keep=None, at=None, base=None):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [keep(s, t, need) if keep else xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t + 1):
            if u in allowed:
                ways.append(both((at(u) if at else x[u]) + need(u, t), need(s, u - 1)))
        return min(ways)

    return (x[0] if base is None else base) + need(0, len(xbar) - 1)


@told(
    "That is what a run needs that keeps everything. With checkpoints it takes less. The two parts of a checkpoint run "
    "one after the other, so the larger one decides: max, not a sum. And of all ways the smallest counts."
)
def keeps_all(x, xbar, allowed):
    return x[0] + sum(xbar)


@told(
    "That is what a run needs that keeps everything, without x[0]. The two parts of a checkpoint run one after the "
    "other, so the larger one decides: max, not a sum. And x[0] is always in memory."
)
def keeps_all_but_the_input(x, xbar, allowed):
    return sum(xbar)


LARGEST = (
    "That is what the largest single stage needs, without anything else that is in memory at the same time. A "
    "checkpoint adds x[u] to what u to t need, and a stage that keeps everything adds xbar[s] to what s + 1 to t need."
)


@told(LARGEST)
def largest_stage(x, xbar, allowed):
    return x[0] + max(xbar)


@told(LARGEST)
def largest_stage_alone(x, xbar, allowed):
    return max(xbar)


@told("The chain's input x[0] is always in memory. Add it to what the stages need.")
def without_input(x, xbar, allowed):
    return smallest(x, xbar, allowed, base=0)


@told("A checkpoint was put where none is allowed. u must be one of the stages in allowed.")
def anywhere(x, xbar, allowed):
    return smallest(x, xbar, range(len(xbar)))


@told("A single stage needs memory as well: xbar[s], not 0.")
def last_for_free(x, xbar, allowed):
    return smallest(x, xbar, allowed, keep=lambda s, t, need: xbar[s] + need(s + 1, t) if s < t else 0)


@told("The checkpoint itself is missing. While u to t run, x[u] is kept.")
def checkpoint_for_free(x, xbar, allowed):
    return smallest(x, xbar, allowed, at=lambda u: 0)


LEFT = (
    "x[u] is charged to the left part. When s to u - 1 run again, u to t are reversed and the checkpoint is gone. It "
    "is in memory while u to t run."
)


@told(LEFT)
def charged_to_both(x, xbar, allowed):
    @cache
    def need(s, t):
        ways = [xbar[s] + need(s + 1, t) if s < t else xbar[s]]
        ways += [x[u] + max(need(u, t), need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


@told(LEFT)
def charged_to_the_left(x, xbar, allowed):
    @cache
    def need(s, t):
        ways = [xbar[s] + need(s + 1, t) if s < t else xbar[s]]
        ways += [max(need(u, t), x[u] + need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


@told("A checkpoint keeps an input, x[u]; xbar[u] is what stage u takes if it keeps everything.")
def checkpoint_for_xbar(x, xbar, allowed):
    return smallest(x, xbar, allowed, at=lambda u: xbar[u])


@told("To keep everything of s takes xbar[s], not only its output.")
def keeps_outputs(x, xbar, allowed):
    return smallest(x, xbar, allowed, keep=lambda s, t, need: x[s + 1] + need(s + 1, t))


def cut_once(x, xbar, starts):
    return max(kept + content for kept, _, content in segments(x, xbar, starts))


@told(
    "That is a chain cut into segments, each of which runs again as a whole. A part that runs again may have "
    "checkpoints of its own, as in need(s, u - 1)."
)
def best_segments(x, xbar, allowed):
    rest = sorted(allowed - {0})
    return min(cut_once(x, xbar, [0, *some]) for k in range(len(rest) + 1) for some in combinations(rest, k))


@told(
    "Every allowed checkpoint was kept at the same time. A checkpoint may be left out, and may be placed again inside "
    "the left part. Try all u, and take the smallest."
)
def segments_at_allowed(x, xbar, allowed):
    return cut_once(x, xbar, sorted(allowed))


@told("A checkpoint at t, the last stage, was not tried. u goes from s + 1 to t, t included.")
def never_at_t(x, xbar, allowed):
    @cache
    def need(s, t):
        ways = [xbar[s] + need(s + 1, t) if s < t else xbar[s]]
        return min(ways + [max(x[u] + need(u, t), need(s, u - 1)) for u in range(s + 1, t) if u in allowed])

    return x[0] + need(0, len(xbar) - 1)


@told("Stage u is counted in both parts. It belongs to the right one, and the left one is need(s, u - 1).")
def left_part_to_u(x, xbar, allowed):
    @cache
    def need(s, t):
        ways = [xbar[s] + need(s + 1, t) if s < t else xbar[s]]
        return min(ways + [max(x[u] + need(u, t), need(s, u)) for u in range(s + 1, t) if u in allowed])

    return x[0] + need(0, len(xbar) - 1)


@told("Any stage may keep everything, even one where no checkpoint is allowed.")
def keeps_where_allowed(x, xbar, allowed):
    return smallest(
        x, xbar, allowed, keep=lambda s, t, need: xbar[s] + need(s + 1, t) if s == t or s in allowed else inf
    )


@told("A checkpoint at u is the input of u, so u itself must be in allowed, not the stage before it.")
def allowed_in_front(x, xbar, allowed):
    return smallest(x, xbar, {stage + 1 for stage in allowed})


INPUT_AGAIN = "x[s] was added again. The input of s is in memory already, and need(s, t) comes on top of it."


@told(INPUT_AGAIN)
def keeps_input_too(x, xbar, allowed):
    return smallest(x, xbar, allowed, keep=lambda s, t, need: xbar[s] + x[s] + need(s + 1, t))


@told(INPUT_AGAIN)
def input_of_the_left(x, xbar, allowed):
    @cache
    def need(s, t):
        ways = [xbar[s] + need(s + 1, t) if s < t else xbar[s]]
        ways += [max(x[u] + need(u, t), x[s] + need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


@told("Gradients were counted, and all stages allowed. Here gradients are free, dx=[0] * (n + 1).")
def with_all_gradients(x, xbar, allowed):
    n = len(xbar)
    try:
        return ck.optimal(ck.Costs([1] * n, [1] * n, x, xbar), 0)
    except ck.CkptError as error:
        return error.smallest


# ---- Task 5: plan_model ----

told = check.plan_model.mistake


def in_flops(stages, x, **changed):
    costs = ck.profile_chain(stages, x, repeats=1)
    return replace(costs, ftime=flops_of(stages, len(x)), btime=[0] * costs.n, **changed)


@told("Nothing is recomputed, so it does not fit in the budget. A plain step keeps everything.")
def plain(stages, x, budget):
    return ck.store_all(len(stages))


@told(
    "That is the work of ck.sqrt(n). Equal segments do not know how unequal the stages are, and do not "
    "look at the budget."
)
def root(stages, x, budget):
    return ck.sqrt(len(stages))


@told(
    "That is the work of equal segments. Segments of unequal length, and parts that run again with checkpoints of "
    "their own, repeat less work in the same budget. ck.optimal tries them all."
)
def equal_segments(stages, x, budget):
    n, costs = len(stages), ck.profile_chain(stages, x, repeats=1)
    cuts = (ck.periodic(n, k) for k in range(1, n + 1))
    return next((cut for cut in cuts if cut.cost(costs).peak <= budget), None)


@told("That is the work of a schedule that keeps only the chain's input. The budget allows much less work.")
def everything_again(stages, x, budget):
    return ck.recompute_all(len(stages))


@told("That is the work in the smallest budget. You have more memory than that, which allows less work.")
def frugal(stages, x, budget):
    costs = in_flops(stages, x)
    try:
        return ck.optimal(costs, 0)
    except ck.CkptError as error:
        return ck.optimal(costs, error.smallest)


@told(
    "The work is that of a plan with times that are not FLOPs, such as the profile's seconds. Replace ftime, and pass "
    "that copy on."
)
def in_seconds(stages, x, budget):
    return ck.optimal(ck.profile_chain(stages, x, repeats=1), budget)


@told(
    "The work is that of a plan for stages that take equally long. The time of a forward is its FLOPs. Replace ftime, "
    "and pass that copy on."
)
def equal_times(stages, x, budget):
    return ck.optimal(replace(in_flops(stages, x), ftime=[1] * len(stages)), budget)


def in_other_times(time):
    """Planned with a wrong formula for the time of a block, d to h to k features."""

    @told(
        "More work is repeated than needed, as if a block had other FLOPs. It has two matrix products: 2·N·(d·h + h·k)."
    )
    def plan_model(stages, x, budget):
        times = [time(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
        return ck.optimal(replace(in_flops(stages, x), ftime=times), budget)


in_other_times(lambda d, h, k: d * h)
in_other_times(lambda d, h, k: h * k)
in_other_times(lambda d, h, k: d * k)
in_other_times(lambda d, h, k: d * h * k)


@told(
    "It does not fit. Was the chain's input added to the budget? The budget has room for it already, so "
    "pass it on as it is."
)
def input_on_top(stages, x, budget):
    return ck.optimal(in_flops(stages, x), budget + x.numel() * x.element_size())


@told(
    "The plan needs more than the budget. Gradients or temporary tensors are missing from the price list: profile them."
)
def without_temporaries(stages, x, budget):
    costs, n = in_flops(stages, x), len(stages)
    free = ck.Costs(costs.ftime, costs.btime, costs.x, costs.xbar, dx=[0] * (n + 1))
    return ck.optimal(free, budget)


@told(
    "The plan needs more than the budget. Gradients or temporary tensors are missing from the price list: profile them."
)
def without_tmp_only(stages, x, budget):
    costs = in_flops(stages, x)
    return ck.optimal(ck.Costs(costs.ftime, costs.btime, costs.x, costs.xbar), budget)


@told(
    "The work is that of a plan whose times are bytes. The time of a forward is its FLOPs: 2·N·(d·h + h·k) for a block."
)
def bytes_as_time(stages, x, budget):
    costs = in_flops(stages, x)
    return ck.optimal(replace(costs, ftime=costs.xbar), budget)


def with_less(message, less):
    """Planned in FLOPs, with a part of the budget; says nothing where that is too little."""

    @told(message)
    def plan_model(stages, x, budget):
        try:
            return ck.optimal(in_flops(stages, x), less(x, budget))
        except ck.CkptError:
            return None


with_less(
    "More work is repeated than needed, as if the chain's input was taken off the budget. ck.optimal counts it itself: "
    "pass on the whole budget.",
    lambda x, budget: budget - x.numel() * x.element_size(),
)
with_less(
    "More work is repeated than needed, as if a part of the budget was not used. Pass on all of it.",
    lambda x, budget: budget * 9 // 10,
)
