"""What is known about wrong answers to assignment 6, and what to say to each."""

from functools import cache
from itertools import pairwise
from math import comb, inf, sqrt

import torch
from tasks import check

import ckptlib as ck

# ---- Task 1: periodic_cost ----


def about(save, key, message, wrong):
    """A wrong formula for one number in one reading; m stages in each of k chunks."""

    def periodic_cost(n, k, save_chunk):
        value = wrong(n, k, n // k) if save_chunk is save else None
        return {"forwards": None, "peak": None} | {key: value}

    check.periodic_cost.mistake(message)(periodic_cost)


LAST = "The last chunk need not be brought back: when forward arrives there, backward begins. Its stages run once."
OTHER = "That is the other reading: look at what is saved of a chunk while it is reversed."
about(True, "forwards", LAST, lambda n, k, m: 2 * n)
about(True, "forwards", OTHER, lambda n, k, m: n - m + k * m * (m + 1) // 2)
about(True, "forwards", "Those are the extra forwards. First runs count, too: n more.", lambda n, k, m: n - m)
about(
    True,
    "forwards",
    "Only one chunk is run again here. All of them are, but for the last.",
    lambda n, k, m: n + m,
)
about(True, "forwards", "Nothing is run again here: that is plain autograd.", lambda n, k, m: n)
about(
    True,
    "peak",
    "The checkpoints alone. While a chunk is reversed, its stages' outputs are alive with them.",
    lambda n, k, m: k,
)
about(
    True,
    "peak",
    "The chunk alone. While it is reversed, the checkpoints of the chunks in front of it are still alive.",
    lambda n, k, m: m,
)
about(True, "peak", OTHER, lambda n, k, m: k + 2)
about(
    True,
    "peak",
    "The chunk's own checkpoint is counted, and so are the outputs of all its m stages, the last one's included: "
    "k + m, not one less.",
    lambda n, k, m: k + m - 1,
)
about(
    True,
    "peak",
    "One too many: the chunk's input is its checkpoint, and the m stages add one output each.",
    lambda n, k, m: k + m + 1,
)
about(True, "peak", "That is plain autograd, or a single chunk around everything.", lambda n, k, m: n + 1)
about(
    False,
    "forwards",
    "The last chunk is run a first time to be forgotten. Forward stops at the last checkpoint: n − m.",
    lambda n, k, m: n + k * m * (m + 1) // 2,
)
about(
    False,
    "forwards",
    "n − m too few: the forward pass places the checkpoints first, n − m forwards; then each chunk takes "
    "m + (m − 1) + … + 1.",
    lambda n, k, m: k * m * (m + 1) // 2,
)
about(
    False,
    "forwards",
    "n²/k is how it grows, not how much it is: reversing a chunk takes m + (m − 1) + … + 1 forwards.",
    lambda n, k, m: n * n // k,
)
SELF = "Each stage also runs for its own backward: a chunk takes m + (m − 1) + … + 1 forwards, m(m + 1)/2."
about(False, "forwards", SELF, lambda n, k, m: n - m + k * m * (m - 1) // 2)
about(
    False,
    "forwards",
    "m² for each chunk is twice too much: the later restarts are shorter, m + (m − 1) + … + 1.",
    lambda n, k, m: n - m + k * m * m,
)
about(False, "forwards", OTHER, lambda n, k, m: 2 * n - m)
about(
    False,
    "forwards",
    "That is n(n + 1)/2, the chain without any checkpoint: a restart begins at the chunk's, not at value 0.",
    lambda n, k, m: n * (n + 1) // 2,
)
about(False, "peak", OTHER, lambda n, k, m: k + m)
about(
    False,
    "peak",
    "The checkpoints alone. The stage that runs has an input and an output, and both are alive.",
    lambda n, k, m: k,
)
about(
    False,
    "peak",
    "One is missing: the stage that runs has an input and an output, and both are alive besides the checkpoints.",
    lambda n, k, m: k + 1,
)
about(False, "peak", "That is the chain with one checkpoint. Here k inputs of chunks are saved.", lambda n, k, m: 3)
about(
    True,
    "peak",
    "One checkpoint and a chunk. The peak is reached in the last chunk: there all k checkpoints are alive.",
    lambda n, k, m: m + 1,
)
about(
    False,
    "peak",
    "One too many: k checkpoints, and the input and the output of the stage that runs.",
    lambda n, k, m: k + 3,
)
about(
    False,
    "forwards",
    "m + (m − 1) + … + 1 is for one chunk: there are k of them.",
    lambda n, k, m: n - m + m * (m + 1) // 2,
)
about(
    False,
    "forwards",
    "The last chunk is reversed like the others, stage by stage: k chunks take m(m + 1)/2 forwards each.",
    lambda n, k, m: n - m + (k - 1) * m * (m + 1) // 2,
)
about(
    False,
    "forwards",
    "n²/2k is how it grows, not how much it is: reversing a chunk takes m + (m − 1) + … + 1 forwards.",
    lambda n, k, m: n * n // (2 * k),
)
CHUNKS_OF_K = "These are chunks of k stages: there are k chunks, of n/k stages each."
about(True, "forwards", CHUNKS_OF_K, lambda n, k, m: 2 * n - k)
about(False, "forwards", CHUNKS_OF_K, lambda n, k, m: n - k + m * k * (k + 1) // 2)
about(False, "peak", CHUNKS_OF_K, lambda n, k, m: m + 2)
about(
    False,
    "forwards",
    "Those are the extra forwards. First runs count, too: n more.",
    lambda n, k, m: k * m * (m + 1) // 2 - m,
)
EXCHANGED = 'The two numbers are exchanged: what is under "forwards" here is the peak, or the other way round.'
about(True, "forwards", EXCHANGED, lambda n, k, m: k + m)
about(True, "peak", EXCHANGED, lambda n, k, m: 2 * n - m)
about(False, "forwards", EXCHANGED, lambda n, k, m: k + 2)
about(False, "peak", EXCHANGED, lambda n, k, m: n - m + k * m * (m + 1) // 2)
ASKED = 'A dict is asked, with the keys "forwards" and "peak".'
check.periodic_cost.mistake(ASKED)(lambda n, k, save_chunk: "no dict")
check.periodic_cost.mistake(ASKED)(lambda n, k, save_chunk: {"another": 0})

# ---- Task 2: runs ----


def predicted(save, message, wrong):
    def predict_runs(n, k, save_chunk):
        return wrong(n, k, n // k) if save_chunk is save else None

    check.runs.mistake(message, predict_runs, None)


predicted(True, LAST, lambda n, k, m: [2] * n)
predicted(
    True,
    "It is the last chunk whose stages run once, not the first: backward begins at the end of the chain.",
    lambda n, k, m: [1] * m + [2] * (n - m),
)
predicted(True, "That is plain autograd: all chunks but the last are run again.", lambda n, k, m: [1] * n)
predicted(
    True,
    "Those are the runs besides the first. The first one counts, too.",
    lambda n, k, m: [1] * (n - m) + [0] * m,
)
predicted(True, OTHER, lambda n, k, m: [m - i % m + (i < n - m) for i in range(n)])
predicted(False, OTHER, lambda n, k, m: [2] * (n - m) + [1] * m)
predicted(
    False,
    "The pass that places the checkpoints is missing: all chunks but the last have run once before.",
    lambda n, k, m: [m - i % m for i in range(n)],
)
predicted(
    False,
    "The last chunk is not run a first time to be forgotten: each of its stages runs once less than that.",
    lambda n, k, m: [m - i % m + 1 for i in range(n)],
)
BACKWARDS = "The other way round: the first stage of a chunk is on the way to all the others, the last to none."
predicted(False, BACKWARDS, lambda n, k, m: [i % m + 1 + (i < n - m) for i in range(n)])
predicted(False, BACKWARDS, lambda n, k, m: [i % m + 1 for i in range(n)])
predicted(
    False,
    "Each stage also runs for its own backward, once: count that run, too.",
    lambda n, k, m: [m - 1 - i % m + (i < n - m) for i in range(n)],
)
predicted(
    False,
    "That is the chain without checkpoints: a restart begins at the chunk's own, so later chunks cost the same.",
    lambda n, k, m: [n - i for i in range(n)],
)


EACH = "That is the number of all runs together: how often does each stage run?"
predicted(True, EACH, lambda n, k, m: 2 * n - m)
predicted(False, EACH, lambda n, k, m: n - m + k * m * (m + 1) // 2)
predicted(True, CHUNKS_OF_K, lambda n, k, m: [2] * (n - k) + [1] * k)
predicted(False, CHUNKS_OF_K, lambda n, k, m: [k - i % k + (i < n - k) for i in range(n)])
predicted(
    False,
    "That is one chunk: an entry is asked for each of the n stages.",
    lambda n, k, m: [m + 1 - i for i in range(m)],
)


def measured(message, wrong):
    check.runs.mistake(message, None, wrong)


def counting(layers):
    runs = [0] * len(layers)

    def hook(i):
        def count(*_):
            runs[i] += 1

        return count

    for i, layer in enumerate(layers):
        layer.register_forward_hook(hook(i))
    return runs


def forward_only(schedule, layers, x):
    runs = counting(layers)
    ck.execute(schedule, layers, x)
    return runs


def not_executed(schedule, layers, x):
    runs = counting(layers)
    torch.nn.Sequential(*layers)(x).sum().backward()
    return runs


def together(schedule, layers, x):
    runs = counting(layers)
    ck.execute(schedule, layers, x).sum().backward()
    return sum(runs)


def besides_the_first(schedule, layers, x):
    runs = counting(layers)
    ck.execute(schedule, layers, x).sum().backward()
    return [n - 1 for n in runs]


def late_name(schedule, layers, x):
    runs = [0] * len(layers)

    def count(i):
        runs[i] += 1

    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda *_: count(i))  # noqa: B023
    ck.execute(schedule, layers, x).sum().backward()
    return runs


def backwards(schedule, layers, x):
    runs = [0] * len(layers)

    def hook(i):
        def count(*_):
            runs[i] += 1

        return count

    for i, layer in enumerate(layers):
        layer.register_full_backward_hook(hook(i))
    ck.execute(schedule, layers, x).sum().backward()
    return runs


def executed_on_paper(schedule, layers, x):
    ck.execute(schedule, layers, x).sum().backward()
    return schedule.forwards()


measured(
    "Each layer once: were the counts read before backward, or made by a backward hook? Layers run again in backward, "
    "and a forward hook counts those runs, if it is still there.",
    backwards,
)
measured(
    "The layers ran, and the schedule's count on paper was returned. A layer that saves nothing may not run again, "
    "though it is planned: count the calls.",
    executed_on_paper,
)
measured("Only the forward pass ran: recomputation happens in backward, so call it on the output's sum.", forward_only)
measured("The layers were called without the schedule: ck.execute(schedule, layers, x) runs them by it.", not_executed)
measured(
    "No layer ran: that is the schedule's count on paper. Execute it, and count the calls.",
    lambda schedule, layers, x: schedule.forwards(),
)
measured("That is the number of all runs together. How often did each layer run?", together)
measured("Those are the runs besides the first. The first one counts, too.", besides_the_first)
measured(
    "All runs were counted for the last layer: the hook looks i up when it is called, after the loop. Write i=i.",
    late_name,
)

# ---- Task 3: best_k ----

told = check.best_k.mistake


def up(n, k):
    return -(-n // k)


def with_peak(n, checkpoint, stage, k):
    return k, k * checkpoint + up(n, k) * stage


@told("That is √n, for units of one size. Here a checkpoint and a stage weigh differently: both units belong in.")
def root_of_n(n, checkpoint, stage):
    return with_peak(n, checkpoint, stage, round(sqrt(n)))


@told("Upside down: the more a stage saves, the shorter the chunks should be, and the more of them there are.")
def upside_down(n, checkpoint, stage):
    return with_peak(n, checkpoint, stage, min(n, max(1, round(sqrt(n * checkpoint / stage)))))


NEAR = (
    "That k would be best if n/k were not rounded: it is next to √(n · stage/checkpoint). Because chunks are whole, "
    "another k may be better: compare the peaks with ⌈n/k⌉."
)


@told(f"{NEAR} And k cannot be larger than n.")
def rounded(n, checkpoint, stage):
    return with_peak(n, checkpoint, stage, max(1, round(sqrt(n * stage / checkpoint))))


@told(NEAR)
def rounded_within(n, checkpoint, stage):
    return with_peak(n, checkpoint, stage, min(n, max(1, round(sqrt(n * stage / checkpoint)))))


@told("One checkpoint is missing: k chunks have k of them, the first one's input included.")
def one_less(n, checkpoint, stage):
    k, peak = min((with_peak(n, checkpoint, stage, k) for k in range(1, n + 1)), key=lambda pair: pair[1])
    return k, peak - checkpoint


@told("Checkpoints and stages were given one size: a checkpoint takes `checkpoint` bytes, not `stage`.")
def one_size(n, checkpoint, stage):
    return min((with_peak(n, stage, stage, k) for k in range(1, n + 1)), key=lambda pair: pair[1])


told("Two numbers are asked, a pair (k, peak).")(lambda n, checkpoint, stage: "no pair")


@told("Of several k that are equally good, the smallest was asked: it has the fewest forwards.")
def largest(n, checkpoint, stage):
    return min((with_peak(n, checkpoint, stage, k) for k in range(n, 0, -1)), key=lambda pair: pair[1])


def best_of(n, checkpoint, stage, length):
    peaks = {k: k * checkpoint + length(n, k) * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


@told("That is the best k for chunks of n // k stages. n/k is to be rounded up: -(-n // k).")
def best_for_whole_chunks(n, checkpoint, stage):
    return best_of(n, checkpoint, stage, lambda n, k: n // k)[0], None


@told("n/k was rounded down: if k does not divide n, the longest chunk has one stage more.")
def down(n, checkpoint, stage):
    return None, best_of(n, checkpoint, stage, lambda n, k: n // k)[1]


def with_length(length):
    """The k is right, the peak is not: n/k is not rounded up there."""

    def best(n, checkpoint, stage):
        k = best_of(n, checkpoint, stage, up)[0]
        return None, k * checkpoint + length(n, k) * stage

    return best


NOT_ROUNDED = "n/k was not rounded: stages are whole, so if k does not divide n, the longest chunk has ⌈n/k⌉ of them."
told("n/k was rounded down: if k does not divide n, the longest chunk has one stage more.")(
    with_length(lambda n, k: n // k)
)
told(NOT_ROUNDED)(with_length(lambda n, k: n / k))


@told("n // k + 1 is one stage too many where k divides n: n/k rounded up is -(-n // k).")
def one_more(n, checkpoint, stage):
    return None, best_of(n, checkpoint, stage, lambda n, k: n // k + 1)[1]


def compared(rounded):
    """The best of all k, with n/k rounded in another way."""

    return lambda n, checkpoint, stage: best_of(n, checkpoint, stage, lambda n, k: rounded(n / k))


told(NOT_ROUNDED)(compared(float))
told("n/k was rounded to the nearest number: the longest chunk has ⌈n/k⌉ stages, always rounded up.")(compared(round))


@told("k and peak are in the other order: return (k, peak).")
def turned_round(n, checkpoint, stage):
    return min(with_peak(n, checkpoint, stage, k)[::-1] for k in range(1, n + 1))


@told("Only those k were tried that divide n. Any k from 1 to n may be best.")
def divisors(n, checkpoint, stage):
    pairs = [with_peak(n, checkpoint, stage, k) for k in range(1, n + 1) if n % k == 0]
    return min(pairs, key=lambda pair: pair[1])


@told("k = n was never tried: a checkpoint for every stage is allowed, and here it is sometimes the best.")
def below_n(n, checkpoint, stage):
    return min((with_peak(n, checkpoint, stage, k) for k in range(1, n)), key=lambda pair: pair[1])


@told("k = 1 was never tried: a single chunk is allowed, and here it is sometimes the best.")
def above_1(n, checkpoint, stage):
    return min((with_peak(n, checkpoint, stage, k) for k in range(2, n + 1)), key=lambda pair: pair[1])


@told("The units are exchanged: k checkpoints take k · checkpoint, the chunk takes ⌈n/k⌉ · stage.")
def exchanged(n, checkpoint, stage):
    peaks = {k: k * stage + up(n, k) * checkpoint for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# ---- Task 4: bound ----


def b(s, t):
    return comb(s + t, s) if t >= 0 else 0


def smallest(s, reached):
    r = 0
    while not reached(b(s, r)):
        r += 1
    return r


def beta_is(message, wrong):
    check.bound.mistake(message, wrong, None)


def extra_is(message, wrong):
    check.bound.mistake(message, None, wrong)


FIRST = "You count with one slot more than there is: the chain's input takes the first of the s slots."
beta_is(FIRST, lambda s, t: comb(s + 1 + t, t))
beta_is(
    "That is β(s, t − 1): with t = 0 a chain of one stage can still be reversed, so β(s, 0) = 1.",
    lambda s, t: comb(s + t - 1, s),
)
beta_is(
    "That is β(s − 1, t): a slot less. With one slot, a chain of t + 1 stages can be reversed.",
    lambda s, t: comb(s + t - 1, t),
)
beta_is("A product does not grow fast enough: slots and repeats make a triangle, Pascal's.", lambda s, t: s * t)
beta_is("A product does not grow fast enough: slots and repeats make a triangle, Pascal's.", lambda s, t: s * t + 1)
beta_is("That is s over t, in Pascal's triangle: it is s + t over s.", comb)
beta_is(
    "That is s + t + 1 over s. β(1, t) = t + 1: the binomial coefficient is s + t over s.",
    lambda s, t: comb(s + t + 1, s),
)
beta_is(
    "That is s + t over s − 1. β(1, t) = t + 1: the binomial coefficient is s + t over s.",
    lambda s, t: comb(s + t, s - 1),
)
for base, wrong in (("(s + 1)", lambda s, t: (s + 1) ** t), ("s", lambda s, t: s**t)):
    beta_is(
        f"{base} to the power t would give each repeat all slots anew. In front of a checkpoint there is a repeat "
        "less, behind it a slot less: the two parts are added.",
        wrong,
    )
beta_is(
    "(t + 1) to the power s would be s loops inside each other, each with all repeats for itself. They share them.",
    lambda s, t: (t + 1) ** s,
)
extra_is(
    "Those are all forwards, l + t(l, s). The one of each stage for its own backward does not count here.",
    lambda l, s: l + (r := smallest(s, lambda x: x >= l)) * l - b(s + 1, r - 1),  # noqa: E741
)
extra_is(
    "r · l would be right if every stage advanced r times. Many advance less often, and spare β(s + 1, r − 1).",
    lambda l, s: smallest(s, lambda x: x >= l) * l,  # noqa: E741
)
extra_is(
    "The number to subtract has a slot more: β(s + 1, r − 1), the sum of β(s, 0), β(s, 1) … β(s, r − 1).",
    lambda l, s: (r := smallest(s, lambda x: x >= l)) * l - b(s, r - 1),  # noqa: E741
)
extra_is(
    "The number to subtract has a repeat less: β(s + 1, r − 1), the sum of β(s, 0), β(s, 1) … β(s, r − 1).",
    lambda l, s: (r := smallest(s, lambda x: x >= l)) * l - b(s + 1, r),  # noqa: E741
)
extra_is(
    "The number to subtract has a repeat less: β(s + 1, r − 1), the sum of β(s, 0), β(s, 1) … β(s, r − 1).",
    lambda l, s: (r := smallest(s, lambda x: x >= l)) * l - (b(s + 1, r) if r else 0),  # noqa: E741
)
extra_is(
    "r is how often the busiest stage advances. Asked is the sum over all stages.",
    lambda l, s: smallest(s, lambda x: x >= l),  # noqa: E741
)
extra_is("The arguments are exchanged: l is the first, s the second.", lambda l, s: extra(s, l))  # noqa: E741


def every(length):
    return range(1, length)


def recurrence(message, k_counts=True, front=0, none=inf, turned=False, one=None, cuts=every):
    """The recurrence with a slip.

    front   how many slots the part in front gets besides
    none    t without a slot; one: t with one slot, if it does not follow from that
    cuts    the k to try
    """

    @cache
    def t(length, slots):
        if length == 1:
            return 0
        if slots == 1 and one:
            return one(length)
        if slots <= 0:
            return none
        return min(
            k * k_counts + t(k if turned else length - k, slots - 1) + t(length - k if turned else k, slots + front)
            for k in cuts(length)
        )

    extra_is(message, t)


def triangle(length):
    return length * (length - 1) // 2


recurrence("k is missing in the sum: k forwards lead to the next checkpoint.", k_counts=False)
for one in (None, triangle):
    recurrence("In front of the checkpoint all s slots are free again: t(k, s), not t(k, s − 1).", front=-1, one=one)
recurrence("Without a slot a chain of two or more stages cannot be reversed: t is infinite there, not 0.", none=0)
recurrence(
    "That is l − 1, as if there were always one slot more. k forwards lead to the checkpoint, l − k stages behind it "
    "have s − 1 slots, and without a slot t is infinite.",
    turned=True,
)
recurrence(
    "That is l − 1 where there are two slots or more: the part behind never runs out of slots. There l − k stages have "
    "s − 1 slots, and in front k stages have s.",
    turned=True,
    one=triangle,
)
for cuts in (lambda length: [length // 2], lambda length: [(length + 1) // 2]):
    recurrence("Halves are not the best cut: try every k, and take the smallest sum.", one=triangle, cuts=cuts)
recurrence(
    "With one slot t is (l − 1) + (l − 2) + … + 1, l(l − 1)/2: each stage's run for its own backward does not count.",
    one=lambda length: length * (length + 1) // 2,
)
extra_is(
    "r is one too small: it is the smallest number with β(s, r) ≥ l.",
    lambda l, s: (r := max(0, smallest(s, lambda x: x >= l) - 1)) * l - b(s + 1, r - 1),  # noqa: E741
)
extra_is(FIRST, lambda l, s: (r := smallest(s + 1, lambda x: x >= l)) * l - b(s + 2, r - 1))  # noqa: E741
extra_is("That is for one slot, whatever s is: l(l − 1)/2.", lambda l, s: triangle(l))  # noqa: E741

# ---- Tasks 5 and 6 ----


def advance(lo, hi, kind="save input"):
    return [(kind, lo)] + [("forward", i) for i in range(lo + 1, hi)]


def save(lo, hi):
    return [("save all", i) for i in range(lo, hi)] + [("backward", i) for i in reversed(range(lo, hi))]


def in_last(n, k):
    return [i * (n // k) for i in range(k)] + [n]


def longer_first(n, k):
    length, longer = divmod(n, k)
    return [i * length + min(i, longer) for i in range(k + 1)]


def longer_last(n, k):
    return [n - edge for edge in reversed(longer_first(n, k))]


def spread(n, k):
    return [round(i * n / k) for i in range(k + 1)]


def floors(n, k):
    return [i * n // k for i in range(k + 1)]


def ceilings(n, k):
    return [-(-i * n // k) for i in range(k + 1)]


def whole(n, k):
    return [*range(0, n, -(-n // k)), n]


def rest_alone(n, k):
    return [*range(0, n, n // k), n]


def in_first(n, k):
    return [0, *(n - i * (n // k) for i in range(k - 1, -1, -1))]


def of_k(n, k):
    return longer_first(n, -(-n // k))


def builder(edges, twice=False, kind="save input"):
    """Chen's actions; twice: the last chunk, too, is run to be forgotten."""

    def chen(n, k):
        ends = edges(n, k)
        actions = [a for lo, hi in pairwise(ends if twice else ends[:-1]) for a in advance(lo, hi, kind)]
        for lo, hi in reversed(list(pairwise(ends))):
            actions += [("restore", lo)] * (twice or hi < n) + save(lo, hi)
        return actions

    return chen


told = check.chen.mistake
TWICE = "The stages of the last chunk run twice: its input is current when forward arrives there, so save all at once."
REST = "The last chunk has the whole rest, and is the longest just when all k checkpoints are alive. Spread the rest."
FIRST_LONGER = (
    "The lengths are right, their order is not: longer chunks come first, because fewer checkpoints are alive when "
    "they are reversed."
)
told(TWICE)(builder(longer_first, twice=True))
told(REST)(builder(in_last))
told(f"{REST} And its stages run twice, which they need not.")(builder(in_last, twice=True))
told(FIRST_LONGER)(builder(longer_last))
told(FIRST_LONGER)(builder(spread))
told(FIRST_LONGER)(builder(floors))
told(FIRST_LONGER)(builder(ceilings))
told(f"{FIRST_LONGER} And the stages of the last chunk run twice.")(builder(longer_last, twice=True))
told(f"{FIRST_LONGER} And the stages of the last chunk run twice.")(builder(spread, twice=True))
told(f"{FIRST_LONGER} And the stages of the last chunk run twice.")(builder(floors, twice=True))
told(f"{FIRST_LONGER} And the stages of the last chunk run twice.")(builder(ceilings, twice=True))
told("Chunks of ⌈n/k⌉ stages leave the last one what is left: the lengths differ by more than one.")(builder(whole))
told("Chunks of ⌈n/k⌉ stages leave the last one what is left, and here it runs twice, too.")(builder(whole, twice=True))
told("The rest makes a chunk of its own, so there are more than k: spread it, one stage to a chunk.")(
    builder(rest_alone)
)
told("The first chunk has the whole rest: spread it, one stage to a chunk.")(builder(in_first))
told("Those are n/k chunks of k stages: k is the number of chunks.")(builder(of_k))


@told("Every stage saves its input: within a chunk, 'forward' saves nothing.")
def keeps_inputs(n, k):
    return [("save input" if kind == "forward" else kind, stage) for kind, stage in builder(longer_first)(n, k)]


told("The first stage of a chunk runs with 'forward': its input is not saved, and nothing can be restored.")(
    builder(longer_first, kind="forward")
)


@told("All is saved from the start: that is plain autograd, and its peak is n + 1.")
def keeps_all(n, k):
    return save(0, n)


@told("Nothing is saved of a chunk but its checkpoint, and it is run again for every stage: that is the other reading.")
def one_at_a_time(n, k):
    edges = longer_first(n, k)
    actions = [a for lo, hi in pairwise(edges[:-1]) for a in advance(lo, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] * (hi < n) + alone(lo, hi)
    return actions


@cache
def extra(length, slots):
    if length == 1:
        return 0
    if slots == 0:
        return inf
    return min(k + extra(length - k, slots - 1) + extra(k, slots) for k in range(1, length))


def best(length, slots):
    return min(range(1, length), key=lambda k: k + extra(length - k, slots - 1) + extra(k, slots))


def alone(lo, hi):
    return reverse(lo, hi, 1)


def reverse(lo, hi, slots, cut=best, behind=-1, front=0, back=True, kind="save input", together=1):
    """Revolve, or something like it: cut(length, slots), and how the slots change behind and in front of the cut."""
    if hi - lo <= together:
        return save(lo, hi)
    options = {"cut": cut, "behind": behind, "front": front, "back": back, "kind": kind, "together": together}
    middle = lo + (cut(hi - lo, slots) if slots > 1 else hi - lo - 1)
    actions = advance(lo, middle, kind) + reverse(middle, hi, max(slots + behind, 1), **options)
    return actions + [("restore", lo)] * back + reverse(lo, middle, max(slots + front, 1), **options)


told = check.revolve.mistake


@told("All is saved from the start: that is plain autograd. At most slots + 2 activations may be alive.")
def revolve_keeps_all(n, slots):
    return save(0, n) if n > slots else None


@told(
    "Where there are as many slots as stages, everything was saved at once. A slot holds the input of a stage, and a "
    "stage saves everything only if it is reversed immediately afterwards."
)
def keeps_all_if_there_is_room(n, slots):
    return save(0, n) if n <= slots else reverse(0, n, slots)


@told("Only one slot is in use: every stage is reached from the chain's input. Place checkpoints on the way.")
def revolve_one_slot(n, slots):
    return alone(0, n) if slots > 1 else None


def like(message, **options):
    @told(message)
    def revolve(n, slots):
        return reverse(0, n, slots, **options) if slots > 1 else None


HALVES = (
    "Halves are not the best cut. Behind it there is a slot less, so that part should be shorter: try every k, and "
    "take the one with the smallest k + t(l − k, s − 1) + t(k, s)."
)
like(HALVES, cut=lambda length, slots: length // 2)
like(HALVES, cut=lambda length, slots: (length + 1) // 2)
like(
    "In front of the cut all slots are free again: what is behind it was reversed, and its checkpoints are dropped.",
    front=-1,
)
like(
    "In front of the cut all slots are free again: what is behind it was reversed, and its checkpoints are dropped.",
    front=-1,
    cut=lambda length, slots: length // 2,
)
like(
    "Too many checkpoints are alive: behind the cut, value lo is still saved, so there is a slot less.",
    behind=0,
)
like(
    "Too many checkpoints are alive: behind the cut, value lo is still saved, so there is a slot less.",
    behind=0,
    cut=lambda length, slots: length // 2,
)


like(
    "The parts are exchanged in the sum: behind the cut l − k stages have s − 1 slots, in front k stages have s.",
    cut=lambda length, slots: min(range(1, length), key=lambda k: k + extra(k, slots - 1) + extra(length - k, slots)),
)
TRY_EVERY = "try every k, and take the one with the smallest k + t(l − k, s − 1) + t(k, s)."
like(f"The cut is always behind a single stage: {TRY_EVERY}", cut=lambda length, slots: 1)
like(f"Equal parts are not the best cut: {TRY_EVERY}", cut=lambda length, slots: max(1, length // slots))
SLOTS = "the chain's input takes the first of the slots, and the others are for checkpoints on the way."
told(f"A slot stays empty: {SLOTS}")(lambda n, slots: reverse(0, n, slots - 1) if slots > 1 else None)
told(f"A slot is used that is not there: {SLOTS}")(lambda n, slots: reverse(0, n, slots + 1))
told("A stage saves all only to be reversed at once: here two save all together.")(
    lambda n, slots: reverse(0, n, slots, together=2)
)
told("A whole chunk saves all together: here a stage saves all only to be reversed at once.")(
    lambda n, slots: builder(longer_first)(n, slots) if slots > 1 else None
)


def equal_chunks(edges):
    def revolve(n, slots):
        if slots == 1:
            return None
        ends = edges(n, slots)
        actions = [a for lo, hi in pairwise(ends[:-1]) for a in advance(lo, hi)]
        for lo, hi in reversed(list(pairwise(ends))):
            actions += [("restore", lo)] * (hi < n) + alone(lo, hi)
        return actions

    return revolve


for edges in (longer_first, longer_last, spread, floors, in_last, whole):
    told(
        "Equal chunks, one stage at a time: the slots of chunks that are reversed already stay empty. Use them again, "
        "inside the chunks that are left."
    )(equal_chunks(edges))

NO_RESTORE = "After a backward no value is current: restore the input of lo before the part in front is run again."
NOT_SAVED = "What is to be restored must have been saved: the first stage of an advance runs with 'save input'."
for message, options in ((NO_RESTORE, {"back": False}), (NOT_SAVED, {"kind": "forward"})):
    told(message)(lambda n, slots, options=options: reverse(0, n, slots, **options))
