"""What is known about wrong answers to assignment 11, and what to say to each."""

import statistics
from collections.abc import Callable

from tasks import check

MISSING = "The dict that was returned lacks this entry. Is it there, and spelt as in the task?"

# ---- Task 1: op_time ----
told = check.op_time.mistake
told(MISSING)(lambda *args: {})


def product(n, d, k):
    return 2 * n * d * k


def all_three(n, d, k):
    return n * d + d * k + n * k


def op(
    kind,
    sizes,
    itemsize,
    peak,
    bandwidth,
    flops: Callable = product,
    matrices: Callable = all_three,
    tensors=(2, 3),
    elementwise=(0, 0),  # FLOPs of each element of GELU and of a sum
    time: Callable = max,
    limits=("FLOPs", "bytes"),
    compare: Callable = lambda computing, moving, **_: computing > moving,
):
    """The reference, with a mistake."""
    if kind == "matmul":
        work, numbers = flops(*sizes), matrices(*sizes)
    else:
        size, which = sizes[0] * sizes[1], kind == "add"
        work, numbers = elementwise[which] * size, tensors[which] * size
    nbytes = numbers * itemsize
    computing, moving = work / peak, nbytes / bandwidth
    limit = limits[not compare(computing=computing, moving=moving, kind=kind, flops=work, nbytes=nbytes, peak=peak)]
    return {"flops": work, "nbytes": nbytes, "seconds": time(computing, moving), "limit": limit}


def wrong(message, about="flops nbytes", **change):
    """`about`: the entries that this mistake changes; of the others it says nothing."""
    told(message)(lambda *args: {name: entry for name, entry in op(*args, **change).items() if name in about})


wrong("A term of a product takes one multiplication and one addition, so it is 2ndk.", flops=lambda n, d, k: n * d * k)
wrong("The inner length d is missing: each result is a sum of d terms.", flops=lambda n, d, k: 2 * n * k)
wrong("Each of the n · k results has d terms: the width k is missing.", flops=lambda n, d, k: 2 * n * d)
wrong("Each of the n · k results has d terms: the rows n are missing.", flops=lambda n, d, k: 2 * d * k)
wrong("The FLOPs of forward are asked, without the backward pass.", flops=lambda n, d, k: 6 * n * d * k)
wrong(
    "2ndk counts d additions for each result, as the field does, and not d − 1.",
    flops=lambda n, d, k: n * k * (2 * d - 1),
)
wrong(
    "FLOPs do not depend on the size of the product's matrices in memory.", flops=lambda n, d, k: 2 * all_three(n, d, k)
)
told("FLOPs are not multiplied by the bytes of a number.")(
    lambda kind, sizes, itemsize, *rates: {"flops": op(kind, sizes, itemsize, *rates)["flops"] * itemsize}
)
wrong("GELU and a sum count as 0 FLOPs, as in the chapter: only products are counted.", elementwise=(1, 1))
wrong("A sum counts as 0 FLOPs, as in the chapter: only products are counted.", elementwise=(0, 1))
wrong("GELU counts as 0 FLOPs, as in the chapter: only products are counted.", elementwise=(8, 0))
wrong("The result is written, too.", matrices=lambda n, d, k: n * d + d * k, tensors=(1, 2))
wrong("The result of the product is written, too.", matrices=lambda n, d, k: n * d + d * k)
wrong("The inputs are read, too.", matrices=lambda n, d, k: n * k, tensors=(1, 1))
wrong("The second matrix of the product is read as well.", matrices=lambda n, d, k: n * d + n * k)
wrong("The first matrix of the product is read as well.", matrices=lambda n, d, k: d * k + n * k)
wrong("Each input is read once: a product's matrices are not read for each row.", matrices=lambda n, d, k: n * d * k)
wrong("A sum has two inputs and a result: three tensors.", tensors=(2, 2))
wrong("GELU has one input and a result: two tensors.", tensors=(3, 3))
wrong("GELU reads its input and writes its result: two tensors, not one.", tensors=(1, 3))
wrong("All three matrices of the product are different: (n, d), (d, k) and (n, k).", matrices=lambda n, d, k: 3 * n * d)
told("Bytes are asked: numbers were counted.")(
    lambda kind, sizes, itemsize, *rates: {"nbytes": op(kind, sizes, 1, *rates)["nbytes"]}
)
told("Bytes are asked: bits were counted.")(
    lambda kind, sizes, itemsize, *rates: {"nbytes": op(kind, sizes, 8 * itemsize, *rates)["nbytes"]}
)
for size in (2, 4, 8):
    told("A number has itemsize bytes, not always the same.")(
        lambda kind, sizes, itemsize, *rates, size=size: {"nbytes": op(kind, sizes, size, *rates)["nbytes"]}
    )
wrong(
    "Computing and moving happen at the same time: take the larger of the two, not the sum.",
    about="seconds",
    time=lambda c, m: c + m,
)
wrong("The slower of the two decides: take the larger time, not the smaller.", about="seconds", time=min)
wrong("Only the FLOPs were timed: an op also has to move its bytes.", about="seconds", time=lambda c, m: c)
wrong("Only the bytes were timed: an op also has to compute.", about="seconds", time=lambda c, m: m)
wrong("The mean of the two times is neither of them: take the larger.", about="seconds", time=lambda c, m: (c + m) / 2)
wrong("This is in microseconds: seconds are asked.", about="seconds", time=lambda c, m: 1e6 * max(c, m))
wrong("This is in milliseconds: seconds are asked.", about="seconds", time=lambda c, m: 1e3 * max(c, m))
told("Peak and bandwidth are the wrong way round.")(
    lambda kind, sizes, itemsize, peak, bandwidth: {"seconds": op(kind, sizes, itemsize, bandwidth, peak)["seconds"]}
)
wrong(
    "The two limits are the wrong way round: the op is limited by what takes longer.",
    about="limit",
    limits=("bytes", "FLOPs"),
)
wrong('The limit is spelt "FLOPs" or "bytes".', about="limit", limits=("compute", "memory"))
wrong('The limit is spelt "FLOPs" or "bytes".', about="limit", limits=("computing", "moving"))
wrong(
    "FLOPs and bytes are not compared with each other, but the times that they take.",
    about="limit",
    compare=lambda flops, nbytes, **_: flops > nbytes,
)
wrong(
    "Not every product is limited by its FLOPs: a thin one moves many bytes.",
    about="limit",
    compare=lambda kind, **_: kind == "matmul",
)
wrong("A product is not always limited by bytes: compare the two times.", about="limit", compare=lambda **_: False)
wrong("An op without FLOPs cannot be limited by them: compare the two times.", about="limit", compare=lambda **_: True)

# ---- Task 2: rank ----
told = check.rank.mistake
told(MISSING)(lambda *args: {})


def one_roof(ops, peak, bandwidth):
    return [max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops]


def step_ops(forward, backward, again):
    return [*forward, *(forward[i] for i in again), *backward]


def ranked(
    forward,
    backward,
    plans,
    peak,
    bandwidth,
    launch,
    ops: Callable = step_ops,
    busy: Callable = lambda ops, peak, bandwidth: sum(one_roof(ops, peak, bandwidth)),
    launched: Callable = lambda forward, backward, again: len(forward) + len(again) + len(backward),
    both: Callable = max,
    order: Callable = lambda seconds, **_: sorted(seconds, key=seconds.get),
):
    """The reference, with a mistake."""
    seconds = {
        name: both(busy(ops(forward, backward, again), peak, bandwidth), launched(forward, backward, again) * launch)
        for name, again in plans.items()
    }
    return {"seconds": seconds, "order": order(seconds=seconds, forward=forward, plans=plans)}


def misranked(message, **change):
    """A mistake in the times says nothing about the order, and the other way round."""
    about = "order" if "order" in change else "seconds"
    told(message)(lambda *args: {about: ranked(*args, **change)[about]})


def total(i):
    return lambda ops: sum(op[i] for op in ops)


def cost(key):
    """The plans in the order of a number of what they run again."""
    return lambda forward, plans, **_: sorted(plans, key=lambda name: sum(key(forward[i]) for i in plans[name]))


misranked(
    "The roofline holds for each op, not for the sums of a step: while one op waits for bytes, no other computes.",
    busy=lambda ops, p, b: max(total(0)(ops) / p, total(1)(ops) / b),
)
misranked(
    "For each op the larger of the two times counts, not the sum.",
    busy=lambda ops, p, b: total(0)(ops) / p + total(1)(ops) / b,
)
misranked("Only the FLOPs were timed.", busy=lambda ops, p, b: total(0)(ops) / p)
misranked("Only the bytes were timed.", busy=lambda ops, p, b: total(1)(ops) / b)
misranked(
    "For each op the larger of the two times counts, not the smaller.",
    busy=lambda ops, p, b: sum(min(f / p, n / b) for f, n in ops),
)
misranked(
    "One op runs after another: add their times. The longest op is not the step.",
    busy=lambda ops, p, b: max(one_roof(ops, p, b)),
)
told("Peak and bandwidth are the wrong way round.")(
    lambda f, b, plans, peak, bandwidth, n: {"seconds": ranked(f, b, plans, bandwidth, peak, n)["seconds"]}
)
misranked("The ops that run again are missing, if only among the launches.", ops=lambda f, b, again: [*f, *b])
misranked(
    "The ops that run again are missing, if only among the launches.",
    ops=lambda f, b, again: [*f, *b],
    launched=lambda f, b, a: len(f) + len(b),
)
misranked(
    "Every plan but one runs only some ops again, not the whole forward pass.",
    ops=lambda f, b, again: [*f, *f, *b],
    launched=lambda f, b, a: 2 * len(f) + len(b),
)
misranked(
    "The first forward pass is missing, if only among the launches: a plan's ops run in addition to it.",
    ops=lambda f, b, again: [*(f[i] for i in again), *b],
    launched=lambda f, b, a: len(a) + len(b),
)
misranked(
    "The backward pass is missing, if only among the launches.",
    ops=lambda f, b, again: [*f, *(f[i] for i in again)],
    launched=lambda f, b, a: len(f) + len(a),
)
misranked(
    "The numbers are those of the ops that run again, not of those that are saved.",
    ops=lambda f, b, again: [*f, *(f[i] for i in range(len(f)) if i not in again), *b],
    launched=lambda f, b, a: 2 * len(f) - len(a) + len(b),
)
misranked(
    "The numbers count from 0: the op before was taken.", ops=lambda f, b, again: [*f, *(f[i - 1] for i in again), *b]
)
misranked(
    "The ops of a plan run once more, not twice.",
    ops=lambda f, b, again: [*f, *(f[i] for i in again), *(f[i] for i in again), *b],
    launched=lambda f, b, a: len(f) + 2 * len(a) + len(b),
)
misranked(
    "The numbers are those of ops of `forward`, not of `backward`.",
    ops=lambda f, b, again: [*f, *(b[i] for i in again), *b],
)
misranked(
    "The ops of `backward` do not run again: only ops of `forward` do.",
    ops=lambda f, b, again: [*f, *(f[i] for i in again), *b, *b],
    launched=lambda f, b, a: len(f) + len(a) + 2 * len(b),
)
misranked(
    "The host launches while the GPU works: take the larger of the two, not the sum.",
    both=lambda busy, host: busy + host,
)
misranked("The launches were left out: short kernels wait for the host.", both=lambda busy, host: busy)
misranked("Only the launches were timed.", both=lambda busy, host: host)
misranked("Every op has a launch of its own: one for the whole step was counted.", launched=lambda f, b, a: 1)
told("The host launches ahead, so a long kernel hides the launches of short ones: compare the sums, not op by op.")(
    lambda f, b, plans, p, bw, launch: {
        "seconds": ranked(
            f, b, plans, p, bw, launch, busy=lambda ops, p, bw: sum(max(launch, x) for x in one_roof(ops, p, bw))
        )["seconds"]
    }
)
misranked("This is in microseconds: seconds are asked.", both=lambda busy, host: 1e6 * max(busy, host))
misranked("This is in milliseconds: seconds are asked.", both=lambda busy, host: 1e3 * max(busy, host))
FASTEST = "The fastest plan comes first: this is the other way round."
misranked(FASTEST, order=lambda seconds, **_: sorted(seconds, key=seconds.get, reverse=True))
misranked(
    "The order is that of the FLOPs that run again. A plan with fewer FLOPs may take longer: sort by seconds.",
    order=cost(lambda op: op[0]),
)
misranked("The order is that of the bytes that move again: sort by seconds.", order=cost(lambda op: op[1]))
misranked("The order is that of the number of ops that run again: sort by seconds.", order=cost(lambda op: 1))
misranked("The order is that of the names: sort by seconds.", order=lambda seconds, **_: sorted(seconds))
misranked(
    "The order is that in which the plans were passed: sort by seconds.", order=lambda seconds, **_: list(seconds)
)
misranked(
    "All names are asked for, in order: only the fastest was returned.",
    order=lambda seconds, **_: [min(seconds, key=seconds.get)],
)
misranked(
    "All names are asked for, in a list: one name was returned.",
    order=lambda seconds, **_: min(seconds, key=seconds.get),
)
misranked("Names are asked for: the seconds were sorted.", order=lambda seconds, **_: sorted(seconds.values()))
misranked(
    "Names are asked for: pairs were returned.",
    order=lambda seconds, **_: sorted(seconds.items(), key=lambda pair: pair[1]),
)

# ---- Task 3: bench ----
told = check.bench.mistake


def timing(warm_ups=1, before=True, after=True, result=statistics.median, count=0, drop=0):
    """The reference, with a mistake. `count`: so many more runs; `drop`: so many first ones are thrown away."""

    def bench(step, clock, synchronize, runs):
        for _ in range(warm_ups):
            step()
        times = []
        for _ in range(runs + count):
            if before:
                synchronize()
            start = clock()
            step()
            if after:
                synchronize()
            times.append(clock() - start)
        return result(times[drop:] or [0])

    return bench


def mistimed(message, **change):
    told(message)(timing(**change))


LAUNCHES = (
    "The clock was read before the GPU had done its work: this is the time of the launches. Synchronize after the step."
)
NOT_YET = "Something was still running when the clock started: synchronize before you read it for the first time."
mistimed(LAUNCHES, before=False, after=False)
mistimed(LAUNCHES, after=False)
mistimed(LAUNCHES, before=False, after=False, result=statistics.mean)
mistimed(NOT_YET, before=False)
mistimed("The first run was counted, which is slower than all others: call `step` once before you time it.", warm_ups=0)
mistimed(
    "The first run was counted, which is slower than all others: call `step` once before you time it.",
    warm_ups=0,
    before=False,
)
mistimed(LAUNCHES, before=False, after=False, warm_ups=0)
mistimed(LAUNCHES, before=False, after=False, warm_ups=0, result=statistics.mean)
mistimed("The mean lets a few late runs decide: take the median.", result=statistics.mean)
mistimed("The least time is what a run can take, not what it typically takes: the median is asked.", result=min)
mistimed("The most time is that of the run that was interrupted longest: the median is asked.", result=max)
mistimed("All runs were added: the median of them is asked.", result=sum)
mistimed("This is the last run: the median of all runs is asked.", result=lambda times: times[-1])
mistimed("This is the first timed run: the median of all runs is asked.", result=lambda times: times[0])
mistimed("Sort the times before you take the middle one.", result=lambda times: times[len(times) // 2])
mistimed(
    "The middle one of n sorted times has the number n // 2, counted from 0.",
    result=lambda times: sorted(times)[min(len(times) // 2 + 1, len(times) - 1)],
)
mistimed(
    "The middle one of n sorted times has the number n // 2, counted from 0.",
    result=lambda times: sorted(times)[max(len(times) // 2 - 1, 0)],
)
mistimed("This is a quarter of the way up, not the middle.", result=lambda times: sorted(times)[len(times) // 4])
mistimed("One number is asked for, the median: all times were returned.", result=list)
mistimed(
    "The time was divided by the number of runs, but each run was timed by itself.",
    result=lambda t: statistics.median(t) / len(t),
)
mistimed("Start and end are the wrong way round.", result=lambda t: -statistics.median(t))
mistimed("The clock's own unit is asked for: this was divided by 1,000.", result=lambda t: statistics.median(t) / 1e3)
mistimed(
    "The clock's own unit is asked for: this was divided by a million.", result=lambda t: statistics.median(t) / 1e6
)
mistimed(
    "The largest time was left out and the rest averaged, but several runs are late: take the median.",
    result=lambda t: statistics.mean(sorted(t)[:-1] or t),
)
mistimed(
    "Largest and least time were left out and the rest averaged, but several runs are late: take the median.",
    result=lambda t: statistics.mean(sorted(t)[1:-1] or t),
)
mistimed("The spread of the times was returned: the median is asked.", result=lambda t: max(t) - min(t))
mistimed("The warm-up is a call beyond the `runs` that are timed: one of these was thrown away.", warm_ups=0, drop=1)
mistimed("`step` is called once for the warm-up, and then `runs` times: it was called more often.", warm_ups=2)
mistimed("`step` is called once for the warm-up, and then `runs` times: it was called more often.", warm_ups=3)
mistimed("`step` is called once for the warm-up, and then `runs` times: it was called more often.", count=1)
mistimed("`step` is called once for the warm-up, and then `runs` times: it was called more often.", warm_ups=10)


@told(
    "The clock was started before the first synchronize: what was still running was counted. Synchronize, then read it."
)
def started_too_early(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        start = clock()
        synchronize()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


@told("All runs were timed together, so the late ones count in full: time each run, and take the median.")
def together(step, clock, synchronize, runs):
    step()
    synchronize()
    start = clock()
    for _ in range(runs):
        step()
    synchronize()
    return (clock() - start) / runs


@told("All runs were timed together: the time of one is asked.")
def all_of_them(step, clock, synchronize, runs):
    step()
    synchronize()
    start = clock()
    for _ in range(runs):
        step()
    synchronize()
    return clock() - start


@told("The step was never called between the two readings of the clock.")
def not_called(step, clock, synchronize, runs):
    return 0


# ---- Task 4: winning ----
told = check.winning.mistake
told(MISSING)(lambda *args: {})


def answer(
    fixed,
    each,
    again,
    plain,
    most,
    even: Callable = lambda fixed, each, again, plain: fixed / again,
    batch: Callable = lambda top, left: top // left + 1,
    left: Callable = lambda fixed, each, again, plain: fixed - again * plain,
    top: Callable = lambda fixed, each, again, plain: fixed * plain,
    none=0,
    limit=True,
    gain: Callable = lambda without, with_it, **_: without / with_it - 1,
):
    """The reference, with a mistake."""
    sizes = {"fixed": fixed, "each": each, "again": again, "plain": plain}
    room = left(**sizes)
    smallest = batch(top(**sizes), room) if room > 0 else none
    if limit and smallest > most:
        smallest = none
    without, with_it = fixed / plain + each, fixed / most + each + again
    found = gain(without=without, with_it=with_it, smallest=smallest, most=most, **sizes)
    return {"break_even": even(**sizes), "smallest": smallest, "gain": found}


def misjudged(message, **change):
    """Of the entries that this mistake does not change, it says nothing."""
    about = {"even": "break_even", "gain": "gain"}.get(next(iter(change)), "smallest")
    told(message)(lambda *args: {about: answer(*args, **change)[about]})


misjudged(
    "F is divided by r·t, which is `again`: not by the time that a sequence takes anyway.",
    even=lambda fixed, each, **_: fixed / each,
)
misjudged(
    "F is divided by r·t alone, which is `again`: t is the same with and without recomputation.",
    even=lambda fixed, each, again, **_: fixed / (each + again),
)
misjudged("This is the break-even batch upside down: F/(r t).", even=lambda fixed, again, **_: again / fixed)
misjudged("Divide F by r·t: it was multiplied.", even=lambda fixed, again, **_: fixed * again)
misjudged(
    "The break-even batch does not depend on `plain`: it is what `plain` is compared with.",
    even=lambda fixed, again, plain, **_: fixed / (again * plain),
)
misjudged(
    "The break-even batch does not depend on `plain`: it is what `plain` is compared with.",
    even=lambda fixed, again, plain, **_: fixed / again - plain,
)
misjudged(
    "`again` is already r·t: it was multiplied by t once more.",
    even=lambda fixed, each, again, **_: fixed / (each * again),
)
misjudged("`again` is already r·t: t cancels.", even=lambda fixed, each, again, **_: fixed * each / again)
misjudged(
    "This was rounded down: the break-even batch is asked for as a float.",
    even=lambda fixed, again, **_: fixed // again,
)
misjudged(
    "This was rounded up: the break-even batch is asked for as a float.",
    even=lambda fixed, again, **_: -(-fixed // again),
)
misjudged(
    "This was rounded: the break-even batch is asked for as it is.", even=lambda fixed, again, **_: round(fixed / again)
)
misjudged("This is r, the share of a sequence's time: F is missing.", even=lambda each, again, **_: again / each)
misjudged(
    "More means more, not as many: with this batch both are equal. The next one wins.",
    batch=lambda top, left: -(-top // left),
)
misjudged("This was rounded down, to a batch that does not win.", batch=lambda top, left: top // left)
misjudged("This was rounded to the nearest batch, which may not win.", batch=lambda top, left: round(top / left))
misjudged("A whole number is asked for: a batch is made of sequences.", batch=lambda top, left: top / left)
misjudged(
    "One too many: the smallest whole number larger than p/q is p // q + 1.", batch=lambda top, left: top // left + 2
)
misjudged(
    "The other batch pays fixed/plain for each sequence, not all of `fixed`.",
    top=lambda fixed, **_: fixed,
    left=lambda fixed, again, **_: fixed - again,
)
misjudged(
    "Recomputation was taken to cost nothing: then every batch larger than `plain` would win.",
    left=lambda fixed, **_: fixed,
)
misjudged(
    "The time `each` is on both sides and cancels.",
    left=lambda fixed, each, again, plain: fixed - (each + again) * plain,
)
misjudged("`plain` was multiplied in twice, or once too often.", top=lambda fixed, plain, **_: fixed * plain * plain)
misjudged(
    "`plain` is missing on one side: the batch is larger than fixed · plain / (fixed − again · plain).",
    top=lambda fixed, **_: fixed,
)
misjudged(
    "Times per sequence are compared: `again` is paid for each of the `plain` sequences.",
    left=lambda fixed, again, **_: fixed - again,
)
misjudged("A batch larger than `most` does not fit: then the answer is 0.", limit=False)
for none in (-1, 1, "none", float("inf")):
    told("If no batch wins, the answer is 0.")(lambda *args, none=none: {"smallest": answer(*args)["smallest"] or none})
told("If no batch wins, the answer is 0. The largest batch that fits was returned.")(
    lambda *args: {"smallest": answer(*args)["smallest"] or args[4]}
)
told("The largest batch was returned: the smallest that wins is asked.")(lambda *args: {"smallest": args[4]})
told("The largest batch itself fits: the first that wins may be `most`.")(
    lambda *args: {"smallest": answer(*args)["smallest"] if answer(*args)["smallest"] < args[4] else 0}
)
told("The break-even batch is a limit for `plain`. It is not the batch with which recomputation wins.")(
    lambda *args: {"smallest": args[0] // args[2] + 1}
)
misjudged("This is the ratio: subtract 1 for the gain.", gain=lambda without, with_it, **_: without / with_it)
misjudged(
    "The two are the wrong way round: more sequences per second are less time per sequence.",
    gain=lambda without, with_it, **_: with_it / without - 1,
)
misjudged(
    "This is in percent: 0.1 is asked for if it is 10 %.",
    gain=lambda without, with_it, **_: 100 * (without / with_it - 1),
)
misjudged("A loss is a negative gain, not 0.", gain=lambda without, with_it, **_: max(0.0, without / with_it - 1))
misjudged("The sign is lost: a loss is a negative gain.", gain=lambda without, with_it, **_: abs(without / with_it - 1))
misjudged(
    "This is the time that a sequence saves, as a share: sequences per second are asked.",
    gain=lambda without, with_it, **_: 1 - with_it / without,
)
misjudged(
    "This is a difference of times: a ratio of sequences per second is asked.",
    gain=lambda without, with_it, **_: without - with_it,
)
misjudged(
    "Steps were compared, with different numbers of sequences: divide by the batch.",
    gain=lambda fixed, each, again, plain, most, **_: (fixed + plain * each) / (fixed + most * (each + again)) - 1,
)
misjudged(
    "Both were given the batch `plain`: recomputation has the batch `most`.",
    gain=lambda fixed, each, again, plain, without, **_: without / (fixed / plain + each + again) - 1,
)
misjudged(
    "Both were given the batch `most`: without recomputation only `plain` sequences fit.",
    gain=lambda fixed, each, most, with_it, **_: (fixed / most + each) / with_it - 1,
)
misjudged(
    "Recomputation was forgotten in the gain: each sequence takes `again` more.",
    gain=lambda fixed, each, most, without, **_: without / (fixed / most + each) - 1,
)
misjudged("The fixed time was forgotten in the gain.", gain=lambda each, again, **_: each / (each + again) - 1)
misjudged(
    "The fixed time does not disappear with a larger batch: it is divided among `most` sequences.",
    gain=lambda each, again, without, **_: without / (each + again) - 1,
)
misjudged(
    "The fixed time is paid once in a step, not for each sequence.",
    gain=lambda fixed, each, again, **_: (fixed + each) / (fixed + each + again) - 1,
)
misjudged(
    "The batches themselves were compared: what counts is sequences per second.",
    gain=lambda plain, most, **_: most / plain - 1,
)
