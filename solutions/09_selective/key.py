"""What is known about wrong answers to assignment 9, and what to say to each."""

from itertools import combinations, product

import torch
from tasks import LARGE, check
from torch.utils.checkpoint import CheckpointPolicy

from ckptlib.recompute.op_costs import segment_costs

aten = torch.ops.aten
SAVE, AGAIN = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE

# ---- Task 1: price ----


def about_price(message, flops=None, nbytes=None, per_byte=None):
    """A wrong formula for some of the three numbers; nothing is said about the others."""

    def wrong(*sizes):
        return tuple(formula and formula(*sizes) for formula in (flops, nbytes, per_byte))

    check.price.mistake(message)(wrong)


TWO = "A sum of products takes a multiplication and an addition for each of its terms: two FLOPs, not one."
about_price(TWO, flops=lambda b, m, i, k, size: b * m * i * k, per_byte=lambda b, m, i, k, size: i / size)
BATCH = "The batch is missing. b pairs of matrices are multiplied, and there are b results."
about_price(
    BATCH,
    flops=lambda b, m, i, k, size: 2 * m * i * k,
    nbytes=lambda b, m, i, k, size: m * k * size,
    per_byte=lambda b, m, i, k, size: 2 * b * i / size,
)
about_price(BATCH, per_byte=lambda b, m, i, k, size: 2 * i / (b * size))
about_price(
    "Those are elements. How many bytes has each?",
    nbytes=lambda b, m, i, k, size: b * m * k,
    per_byte=lambda b, m, i, k, size: 2 * i,
)
FLOAT32 = "That is for numbers of four bytes. Here a number has `itemsize` bytes."
about_price(FLOAT32, nbytes=lambda b, m, i, k, size: 4 * b * m * k, per_byte=lambda b, m, i, k, size: i / 2)
about_price(
    "Those are the factors' bytes. What is kept or recomputed is the result, (b, m, k).",
    nbytes=lambda b, m, i, k, size: b * (m * i + i * k) * size,
    per_byte=lambda b, m, i, k, size: 2 * m * k / ((m + k) * size),
)
about_price(
    "Each number of a result is a sum of `inner` products, so the inner length is in the FLOPs. It is "
    "not in the bytes, "
    "because a result has the shape (b, m, k).",
    flops=lambda b, m, i, k, size: 2 * b * m * k,
    nbytes=lambda b, m, i, k, size: b * m * i * k * size,
    per_byte=lambda b, m, i, k, size: 2 / size,
)
about_price(
    "Those are the factors' bytes besides the result's. What is kept or recomputed is the result, (b, m, k).",
    nbytes=lambda b, m, i, k, size: b * (m * i + i * k + m * k) * size,
    per_byte=lambda b, m, i, k, size: 2 * m * i * k / ((m * i + i * k + m * k) * size),
)
about_price(
    "That is one addition fewer for each number. FLOPs count as many additions as multiplications, `inner` of each.",
    flops=lambda b, m, i, k, size: b * m * k * (2 * i - 1),
    per_byte=lambda b, m, i, k, size: (2 * i - 1) / size,
)
about_price(
    "FLOPs and bytes have changed places. Return (flops, nbytes, per_byte).",
    flops=lambda b, m, i, k, size: b * m * k * size,
    nbytes=lambda b, m, i, k, size: 2 * b * m * i * k,
)
about_price(
    "Upside down. That is bytes for each FLOP.",
    per_byte=lambda b, m, i, k, size: size / (2 * i),
)
for rounded in (lambda b, m, i, k, size: 2 * i // size, lambda b, m, i, k, size: round(2 * i / size)):
    about_price("It was rounded. per_byte need not be a whole number, so divide with /.", per_byte=rounded)

# ---- Task 2: predict ----


def about_predict(ends, message, wrong):
    """A wrong prediction for chains that end so. wrong(layers, last, kept) -> (counted as kept, as run again)."""

    @check.predict.mistake(message)
    def predict(rows, widths, kept, asked, itemsize):
        if asked != ends:
            return None
        last = len(widths) - 2
        held, again = wrong(set(range(last + 1)), last, set(kept))
        return (
            sum(rows * widths[i + 1] * itemsize for i in held),
            sum(2 * rows * widths[i] * widths[i + 1] for i in again),
        )


STOPS = (
    "The last product does not run again. Nothing after it saves anything, so early stop ends the recomputation "
    "before it."
)
OUTPUT = "The last layer's result is the segment's output. It is in memory anyway, and does not count."
about_predict("linear", STOPS, lambda every, last, kept: (kept - {last}, every - kept))
about_predict("linear", OUTPUT, lambda every, last, kept: (kept, every - kept - {last}))
about_predict("linear", f"{STOPS} {OUTPUT}", lambda every, last, kept: (kept, every - kept))
about_predict("linear", STOPS, lambda every, last, kept: (kept - {last}, every - kept | {last}))
about_predict("linear", f"{STOPS} {OUTPUT}", lambda every, last, kept: (kept, every - kept | {last}))
NEEDED = (
    "A GELU follows the last product, and saves its input. So the last product runs again, unless its result is kept."
)
about_predict("gelu", NEEDED, lambda every, last, kept: (kept, every - kept - {last}))
about_predict(
    "gelu",
    f"{NEEDED} And its result is not the output.",
    lambda every, last, kept: (kept - {last}, every - kept - {last}),
)
about_predict(
    "gelu",
    "A GELU follows the last product, so its result is not the output. It counts if it is kept.",
    lambda every, last, kept: (kept - {last}, every - kept),
)
KEPT = "The policy keeps results of linear layers, and nothing else. GELUs run again."
for more, message in (
    (lambda every, last, kept: kept, f"Exactly twice the bytes. Were GELUs' outputs counted as kept? {KEPT}"),
    (lambda every, last, kept: kept - {last}, f"GELUs' outputs were counted as kept. {KEPT}"),
    (lambda every, last, kept: every - {last}, f"GELUs' outputs were counted as kept. {KEPT}"),
):
    about_predict("gelu", message, lambda e, n, kept, more=more: ([*kept, *more(e, n, kept)], e - kept))
    about_predict(
        "linear", message, lambda e, n, kept, more=more: ([*kept - {n}, *more(e, n, kept - {n})], e - kept - {n})
    )
for ends in ("gelu", "linear"):
    inside = (lambda last: set()) if ends == "gelu" else (lambda last: {last})
    about_predict(
        ends,
        "Those are the FLOPs of the products that are kept. The others are recomputed.",
        lambda every, last, kept, inside=inside: (kept - inside(last), kept - inside(last)),
    )
    about_predict(
        ends,
        "The bytes are those of the results that are not kept.",
        lambda every, last, kept, inside=inside: (every - kept - inside(last), every - kept - inside(last)),
    )
    about_predict(
        ends,
        "A kept result is returned as it is, and its product does not run again. The others do.",
        lambda every, last, kept, inside=inside: (kept - inside(last), every - inside(last)),
    )
    for of in (max, min):
        about_predict(
            ends,
            "Products before a kept result run again as well. Their own results are needed by a GELU, and for the "
            "gradient of a weight.",
            lambda every, last, kept, inside=inside, of=of: (
                kept - inside(last),
                {i for i in every - kept - inside(last) if i > of(kept - inside(last), default=-1)},
            ),
        )


def scaled(message, of_bytes, of_flops):
    """Right but for the size of a number, or the FLOPs of a product."""

    @check.predict.mistake(message)
    def predict(rows, widths, kept, ends, itemsize):
        layers = range(len(widths) - (1 if ends == "gelu" else 2))
        held = [i for i in layers if i in kept]
        again = [i for i in layers if i not in kept]
        return (
            sum(of_bytes(rows, widths[i], widths[i + 1], itemsize) for i in held),
            sum(of_flops(rows, widths[i], widths[i + 1]) for i in again),
        )


scaled(
    "That is for numbers of four bytes. Here a number has `itemsize` bytes.",
    lambda n, d, k, size: 4 * n * k,
    lambda n, d, k: 2 * n * d * k,
)
scaled("Those are elements. How many bytes has each?", lambda n, d, k, size: n * k, lambda n, d, k: 2 * n * d * k)
scaled(
    "Biases count 0. The FLOPs are those of the matrix products alone.",
    lambda n, d, k, size: n * k * size,
    lambda n, d, k: 2 * n * d * k + n * k,
)
scaled(
    "Three times the FLOPs. Was backward counted? Only the products that run a second time are asked for.",
    lambda n, d, k, size: n * k * size,
    lambda n, d, k: 6 * n * d * k,
)
scaled(TWO, lambda n, d, k, size: n * k * size, lambda n, d, k: n * d * k)
scaled(
    "Those are the bytes of the layers' inputs. Layer i goes from widths[i] to widths[i + 1], and its result is kept.",
    lambda n, d, k, size: n * d * size,
    lambda n, d, k: 2 * n * d * k,
)


def about_right(message, wrong):
    """wrong(a right prediction, as a function of `kept`, and what was given) -> another one."""

    @check.predict.mistake(message)
    def predict(rows, widths, kept, ends, itemsize):
        def right(kept):
            layers = range(len(widths) - (1 if ends == "gelu" else 2))
            return (
                sum(rows * widths[i + 1] * itemsize for i in layers if i in kept),
                sum(2 * rows * widths[i] * widths[i + 1] for i in layers if i not in kept),
            )

        return wrong(right, kept, rows * widths[0] * itemsize, rows * widths[-1] * itemsize)


about_right("FLOPs and bytes have changed places. Return (nbytes, flops).", lambda right, kept, *_: right(kept)[::-1])
about_right("The first layer has the number 0, not 1.", lambda right, kept, *_: right([i - 1 for i in kept]))
about_right(
    "The segment's input was counted. It is in memory anyway, and is left out.",
    lambda right, kept, nbytes, _: (right(kept)[0] + nbytes, right(kept)[1]),
)
about_right(
    "The segment's output was counted. It is in memory anyway, and is left out.",
    lambda right, kept, _, nbytes: (right(kept)[0] + nbytes, right(kept)[1]),
)
about_right(
    "Kept and recomputed have changed places. `kept` lists the layers whose results are kept.",
    lambda right, kept, *_: right([i for i in range(99) if i not in kept]),
)
ONCE = "If it is kept, its FLOPs are not in the sum, so they cannot be subtracted."


@check.predict.mistake(f"{OUTPUT} {ONCE}")
def predict(rows, widths, kept, ends, itemsize):
    if ends != "linear":
        return None
    flops = [2 * rows * d * k for d, k in zip(widths, widths[1:], strict=False)]
    again = sum(each for i, each in enumerate(flops) if i not in kept)
    return sum(rows * widths[i + 1] * itemsize for i in kept), again - flops[-1]


# ---- Task 3: policies ----
FAMILIES = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm)


def is_product(op):
    return op.overloadpacket in FAMILIES


def large(ctx):
    return torch.is_tensor(ctx.op_output) and ctx.op_output.nbytes >= LARGE


def about_policy(message, a=None, b=None):
    """Wrong policies: (ctx, op) -> verdict. Nothing is said about the other."""

    def full(decide):
        return decide and (lambda ctx, op, *args, **kwargs: decide(ctx, op))

    check.policies.mistake(message, full(a), full(b))


NOTHING = (
    "Nothing is kept. Two mistakes do that in silence: comparing op with a family, aten.mm, where its member "
    "aten.mm.default runs (op.overloadpacket is the family), and MUST_CPU_OFFLOAD, which eager mode recomputes."
)
about_policy(NOTHING, a=lambda ctx, op: AGAIN, b=lambda ctx, op: AGAIN)
about_policy(
    "Products are recomputed, and everything else is kept. MUST_CPU_OFFLOAD recomputes in eager mode, and "
    "PREFER_SAVE for all other ops keeps views, GELU and softmax.",
    b=lambda ctx, op: CheckpointPolicy.MUST_CPU_OFFLOAD if is_product(op) and large(ctx) else SAVE,
)
EVERYTHING = (
    "Every result is kept, even those that no derivative asks for. That takes more memory than no checkpoint. "
    "PREFER_RECOMPUTE is the verdict for everything else."
)
about_policy(EVERYTHING, a=lambda ctx, op: SAVE, b=lambda ctx, op: SAVE)
about_policy(
    "Only mm and addmm are kept. Batched products are products as well: bmm and baddbmm.",
    a=lambda ctx, op: SAVE if op in (aten.mm.default, aten.addmm.default) else AGAIN,
    b=lambda ctx, op: SAVE if op in (aten.mm.default, aten.addmm.default) and large(ctx) else AGAIN,
)
about_policy(
    "Only mm and bmm are kept. With a bias or a mask to add they are addmm and baddbmm, which are products as well.",
    a=lambda ctx, op: SAVE if op in (aten.mm.default, aten.bmm.default) else AGAIN,
    b=lambda ctx, op: SAVE if op in (aten.mm.default, aten.bmm.default) and large(ctx) else AGAIN,
)
for some in ((aten.mm,), (aten.addmm,), (aten.addmm, aten.bmm), *combinations(FAMILIES, 3)):
    about_policy(
        "Only some of the products are kept. There are four: mm, addmm, bmm and baddbmm.",
        a=lambda ctx, op, some=some: SAVE if op.overloadpacket in some else AGAIN,
        b=lambda ctx, op, some=some: SAVE if op.overloadpacket in some and large(ctx) else AGAIN,
    )
about_policy(
    "Every large result is kept, also of GELU and of views. Keep the results of products alone.",
    b=lambda ctx, op: SAVE if large(ctx) else AGAIN,
)
about_policy(
    "Every product is kept, whatever its size. ctx.op_output is the result; ask for its nbytes.",
    b=lambda ctx, op: SAVE if is_product(op) else AGAIN,
)
about_policy(
    "A product's result of exactly LARGE bytes is recomputed here. Keep those with LARGE bytes or more.",
    b=lambda ctx, op: SAVE if is_product(op) and ctx.op_output.nbytes > LARGE else AGAIN,
)
about_policy(
    "Elements were compared with LARGE, not bytes: nbytes, not numel.",
    b=lambda ctx, op: SAVE if is_product(op) and ctx.op_output.numel() >= LARGE else AGAIN,
)
for most in (LARGE - 1, LARGE):
    about_policy(
        "Small results are kept, and large ones are recomputed. It is the other way round.",
        b=lambda ctx, op, most=most: SAVE if is_product(op) and ctx.op_output.nbytes <= most else AGAIN,
    )
about_policy(
    "Products are recomputed, and everything else is kept. It is the other way round.",
    a=lambda ctx, op: AGAIN if is_product(op) else SAVE,
    b=lambda ctx, op: AGAIN if is_product(op) and large(ctx) else SAVE,
)
about_policy(
    "Only large results are kept. Policy a keeps the result of every product, whatever its size.",
    a=lambda ctx, op: SAVE if is_product(op) and large(ctx) else AGAIN,
)


def by_argument(ctx, op, *args, **kwargs):
    return SAVE if is_product(op) and args[0].nbytes >= LARGE else AGAIN


check.policies.mistake(
    "What is kept depends on the bytes of an argument. It depends on the result's: ctx.op_output.", None, by_argument
)

# ---- Task 4: choose ----
told = check.choose.mistake


def priced(costs, kept):
    """What a choice spares and takes."""
    return sum(costs[i][0] for i in kept), sum(costs[i][1] for i in kept)


def by(order, ends=False):
    """Greedy, in this order of (flops, nbytes); what does not fit is left out, or ends it.

    No answer where another choice does not spare more, but only takes fewer bytes.
    """

    def choose(costs, budget):
        kept = []
        for i in sorted(range(len(costs)), key=lambda i: order(*costs[i])):
            if costs[i][0] and sum(costs[j][1] for j in [*kept, i]) <= budget:
                kept.append(i)
            elif costs[i][0] and ends:
                break
        few, least = (priced(costs, some) for some in (right_choice(costs, budget), kept))
        return kept if few[0] > least[0] or few == least else None

    return choose


def all_of(costs):
    return [kept for n in range(len(costs) + 1) for kept in combinations(range(len(costs)), n)]


def best(key, room=lambda total, budget: total <= budget, last=False):
    """key(flops spared, bytes), the larger the better."""

    def choose(costs, budget):
        def total(kept, which):
            return sum(costs[i][which] for i in kept)

        fitting = [kept for kept in all_of(costs) if room(total(kept, 1), budget)]
        return list(max(fitting[::-1] if last else fitting, key=lambda kept: key(total(kept, 0), total(kept, 1))))

    return choose


fullest, right_choice = best(lambda f, n: (f, n)), best(lambda f, n: (f, -n))
told("A result that costs 0 FLOPs is kept. It takes bytes, and spares nothing. Among equals, take the fewest bytes.")(
    lambda costs, budget: (right_choice if all(flops for flops, _ in costs) else fullest)(costs, budget)
)
for tied in (best(lambda f, n: f), best(lambda f, n: f, last=True), fullest):
    told("Two choices spare equally many FLOPs here. Take the one with the fewest bytes.")(tied)
for order, ends in product((lambda flops, nbytes: -flops / nbytes, lambda flops, nbytes: -flops), (False, True)):
    told(
        "Another choice spares more. Greedy, by FLOPs or by FLOPs per byte, misses it, because a dear result can leave "
        "no room for two that together spare more (section 9.4). Try all choices."
    )(by(order, ends))
told("Another choice spares more. That is what you get if the smallest results come first. Try all choices.")(
    by(lambda flops, nbytes: nbytes)
)
told(
    "Another choice spares more. That is what you get in the order of the list, as long as they fit. Try all choices."
)(by(lambda flops, nbytes: 0))
told("At most `budget` bytes are kept, so a choice that fills the budget to the last byte fits as well.")(
    best(lambda flops, nbytes: (flops, -nbytes), lambda total, budget: total < budget)
)
told("The results to recompute were returned. Return the indices of those to keep.")(
    lambda costs, budget: sorted(set(range(len(costs))) - set(best(lambda f, n: (f, -n))(costs, budget)))
)
told("Nothing is kept, although there is room. Keep what spares the most FLOPs.")(lambda costs, budget: [])
told("Indices count from 0, so the first result has the index 0.")(
    lambda costs, budget: [i + 1 for i in right_choice(costs, budget)]
)
for order in (lambda cost: -cost[0] / cost[1], lambda cost: -cost[0], lambda cost: cost[1]):
    told("Those are indices into a list that was sorted. Return indices into `costs`, in its own order.")(
        lambda costs, budget, order=order: right_choice(sorted(costs, key=order), budget)
    )


def some_of(numbers):
    """The best choice among those of so many results."""

    def choose(costs, budget):
        def total(kept, which):
            return sum(costs[i][which] for i in kept)

        fitting = [kept for kept in all_of(costs) if len(kept) in numbers(len(costs)) and total(kept, 1) <= budget]
        if not costs:
            return None  # whatever raises there does so for a reason of its own
        return list(max(fitting, key=lambda kept: (total(kept, 0), -total(kept, 1))))

    return choose


told("There is room for all of them, but the choice of all was not tried. Try from no result to len(costs) of them.")(
    some_of(lambda n: range(n))
)
told("Nothing fits into the budget here, so nothing is kept. The empty choice is one of the choices.")(
    some_of(lambda n: range(1, n + 1))
)
told("There is room for all of them, and for none. Choices of 0 and of len(costs) results were not tried.")(
    some_of(lambda n: range(1, n))
)
told("Bytes and FLOPs are mixed up. Costs are (flops, nbytes), and the budget is for bytes.")(
    lambda costs, budget: best(lambda f, n: (f, -n))([(nbytes, flops) for flops, nbytes in costs], budget)
)
told("The budget need not be full. Spare the most FLOPs, and of those choices take the fewest bytes.")(
    best(lambda flops, nbytes: (nbytes, flops))
)

# ---- Task 5: policy_for ----
told = check.policy_for.mistake


def by_place(choice, candidate=lambda cost: cost.flops and cost.again):
    """Like the reference, with another choice, or other candidates."""

    def policy_for(segment, args, budget):
        costs = segment_costs(segment, *args)
        places = [i for i, cost in enumerate(costs) if candidate(cost)]
        kept = {places[i] for i in choice([costs[i][1:3] for i in places], budget)}
        asked = iter(range(len(costs)))
        return lambda ctx, op, *args, **kwargs: SAVE if next(asked) in kept else AGAIN

    return policy_for


def by_shape(segment, args, budget):
    """Keeps every product whose result is as large as a chosen one."""
    costs = [cost for cost in segment_costs(segment, *args) if cost.flops and cost.again]
    kept = {costs[i].nbytes for i in right_choice([cost[1:3] for cost in costs], budget)}
    return lambda ctx, op, *args, **kwargs: SAVE if is_product(op) and ctx.op_output.nbytes in kept else AGAIN


def by_shape_and_price(segment, args, budget):
    """Keeps every product that is as large and as dear as a chosen one."""
    costs = [cost for cost in segment_costs(segment, *args) if cost.flops and cost.again]
    kept = {costs[i] for i in right_choice([cost[1:3] for cost in costs], budget)}
    asked = iter(segment_costs(segment, *args))
    return lambda ctx, op, *args, **kwargs: SAVE if next(asked) in kept else AGAIN


def first_fit(segment, args, budget):
    """Keeps products as they come, as long as there is room."""
    left = [budget]

    def policy(ctx, op, *args, **kwargs):
        if not is_product(op) or ctx.op_output.nbytes > left[0]:
            return AGAIN
        left[0] -= ctx.op_output.nbytes
        return SAVE

    return policy


def untranslated(segment, args, budget):
    """Indices among the candidates, taken for places."""
    costs = segment_costs(segment, *args)
    kept = right_choice([cost[1:3] for cost in costs if cost.flops and cost.again], budget)
    asked = iter(range(len(costs)))
    return lambda ctx, op, *args, **kwargs: SAVE if next(asked) in kept else AGAIN


def never_counts_others(segment, args, budget):
    """Places among all ops, but counted among products."""
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in right_choice([costs[i][1:3] for i in places], budget)}
    asked = iter(range(len(costs)))
    return lambda ctx, op, *args, **kwargs: SAVE if is_product(op) and next(asked) in kept else AGAIN


told(
    "The bytes are spent as if the last product ran again. Early stop leaves it out (`again` is False), so keeping its "
    "result spares nothing, and its bytes are missing elsewhere."
)(by_place(right_choice, lambda cost: cost.flops))
for tied in (best(lambda f, n: f), fullest):
    told("Two choices spare equally many FLOPs here. Keep the one with the fewest bytes.")(by_place(tied))
for order in (lambda flops, nbytes: -flops / nbytes, lambda flops, nbytes: -flops):
    told(
        "Another choice spares more. As with greedy, a dear result left no room for two that together spare "
        "more (section "
        "9.4). Use the choice of task 4."
    )(by_place(by(order)))
for recognised in (by_shape, by_shape_and_price):
    told(
        "Another result of the same size, or of the same size and price, is kept as well. Count, and know each result "
        "by its place."
    )(recognised)
for lost in (lambda *_: lambda ctx, op, *args, **kwargs: AGAIN, never_counts_others):
    told(
        "What is worth it is not kept. Places count all ops that the policy is asked about. Is it counted once for "
        "every question, before anything else, and from 0 by every policy? And is the verdict on the chosen ones "
        "MUST_SAVE?"
    )(lost)
told("choose returns indices into your list of prices, not places in segment_costs. Translate them back into places.")(
    untranslated
)
told(
    "That is what is kept if results are taken as they come, or the smallest first, as long as there is room. Price "
    "them first, then choose."
)(first_fit)
told("Every product is kept, whatever the budget is. Choose some of them.")(
    lambda segment, args, budget: lambda ctx, op, *args, **kwargs: SAVE if is_product(op) else AGAIN
)
told("Everything is kept. PREFER_RECOMPUTE is the verdict for what was not chosen.")(
    lambda segment, args, budget: lambda ctx, op, *args, **kwargs: SAVE
)
