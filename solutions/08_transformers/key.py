"""What is known about wrong answers to assignment 8, and what to say to each."""

from itertools import product
from operator import floordiv, truediv

import torch
from tasks import check
from torch.nn import functional as F

from ckptlib.models.transformer import causal_mask

# ---- Task 1: layer_terms ----

told = check.layer_terms.mistake


def terms(s, b, h, a, ffn, itemsize, activation, mask=1, wide=None, inputs=True, **changed):
    """The reference, with a mistake."""
    e, sbh, square = itemsize, s * b * h, a * s * s * b
    wide = wide or {"gelu": 2, "relu": 1}[activation]
    found = {
        "norms": 2 * e * sbh,
        "qkv": (3 + inputs) * e * sbh,
        "square": (2 * e + mask) * square,
        "projection": (e + mask) * sbh,
        "mlp": (e * inputs + mask) * sbh + wide * e * s * b * ffn,
    }
    return found | changed


MISSING = "The dict that was returned lacks this entry. Is it there, and spelt as in the task?"
told(MISSING)(lambda *args: {})
told("A mask of 1 byte for each element was taken to have the activation's dtype, as F.dropout keeps it on a CPU.")(
    lambda *args: terms(*args, mask=args[5])
)
told("A mask has 1 byte for each element in any precision: only the rest of the table's numbers grows with itemsize.")(
    lambda *args: terms(*args, mask=args[5] // 2)
)
told("The dropout's mask is missing: 1 byte for each element.")(lambda *args: terms(*args, mask=0))
told("ReLU keeps its output, and that is narrow's input: one wide tensor, not two.")(
    lambda *args: {"mlp": terms(*args, wide=2)["mlp"]}
)
told("GELU keeps its input, and narrow keeps GELU's output: two wide tensors, not one.")(
    lambda *args: {"mlp": terms(*args, wide=1)["mlp"]}
)
told("Here ReLU and GELU are the wrong way round: GELU needs its input, and narrow its output besides.")(
    lambda *args: {"mlp": terms(*args, wide={"gelu": 1, "relu": 2}[args[6]])["mlp"]}
)
told("The hidden layer is ffn wide here, not 4h.")(
    lambda *args: {"mlp": terms(*args[:4], 4 * args[2], *args[5:])["mlp"]}
)
told("The dropout behind narrow works on its output, which is h wide: its mask has sbh bytes, not s·b·ffn.")(
    lambda s, b, h, a, ffn, *rest: {"mlp": terms(s, b, h, a, ffn, *rest)["mlp"] + s * b * (ffn - h)}
)
told("A number has itemsize bytes, not always 2.")(lambda *args: terms(*args[:5], 2, args[6]))
told("Every sequence of the batch keeps its own: multiply by b.")(lambda *args: terms(args[0], 1, *args[2:]))
told("A linear layer keeps its input: that of widen is missing.")(
    lambda *args: {"mlp": terms(*args, inputs=False)["mlp"]}
)
told("Three were counted of four: the QKV layer's input, Q, K and V.")(
    lambda *args: {"qkv": terms(*args, inputs=False)["qkv"]}
)


@told("Every head has a matrix of its own: multiply by a.")
def one_head(s, b, h, a, *rest):
    return {"square": terms(s, b, h, 1, *rest)["square"]}


@told("The matrix is s x s: the square is missing.")
def not_squared(s, *rest):
    return {"square": terms(s, *rest)["square"] // s}


@told("The dropout's output is a tensor of its own, beside softmax's: the product with V keeps it.")
def two_of_three(*args):
    found = terms(*args)
    return {"square": found["square"] // (2 * args[5] + 1) * (args[5] + 1)}


@told("There are two LayerNorms, each with an input of its own.")
def one_norm(*args):
    return {"norms": terms(*args)["norms"] // 2}


for statistics in ((4, 4), (8, 16), (8, 8), (16, 16)):  # bytes for each token, if itemsize is 2 or 4

    @told("The statistics of the norms were to be left out.")
    def with_statistics(s, b, h, a, ffn, itemsize, activation, statistics=statistics):
        return {"norms": 2 * itemsize * s * b * h + statistics[itemsize == 4] * s * b}


@told("Q, K and V are three views of one storage of three times sbh numbers: it counts once.")
def views_three_times(*args):
    return {"qkv": terms(*args)["qkv"] // 4 * 10}


@told("Q, K and V are missing: the QKV layer's input alone was counted.")
def input_alone(*args):
    return {"qkv": terms(*args)["qkv"] // 4}


@told("Two were counted of four: the QKV layer's input, Q, K and V.")
def two_of_four(*args):
    return {"qkv": terms(*args)["qkv"] // 2}


def in_the_square(each):
    return lambda s, b, h, a, ffn, itemsize, activation: {"square": each(itemsize) * a * s * s * b}


told("That is softmax's output alone: the dropout keeps a mask, and the product with V keeps the dropout's output.")(
    in_the_square(lambda itemsize: itemsize)
)
told("The scores themselves are not kept: softmax's derivative needs its output, not its input.")(
    in_the_square(lambda itemsize: 3 * itemsize + 1)
)


@told("There is a matrix of s x s for each of the a heads, not for each of the h numbers.")
def one_for_each_number(s, b, h, a, *rest):
    return {"square": terms(s, b, h, h, *rest)["square"]}


@told("Narrow keeps its input, which is ReLU's output: one wide tensor, not none.")
def nothing_for_relu(s, b, h, a, ffn, itemsize, activation):
    found = terms(s, b, h, a, ffn, itemsize, activation)["mlp"]
    return {"mlp": found - (itemsize * s * b * ffn if activation == "relu" else 0)}


@told("ReLU keeps no mask: backward looks at its output, which narrow keeps anyway.")
def mask_of_relu(s, b, h, a, ffn, itemsize, activation):
    found = terms(s, b, h, a, ffn, itemsize, activation)["mlp"]
    return {"mlp": found + (s * b * ffn if activation == "relu" else 0)}


@told("One tensor of width h too many: LayerNorm 2's input is among the norms. Nobody keeps the output of narrow.")
def output_of_narrow(s, b, h, a, ffn, itemsize, activation):
    return {"mlp": terms(s, b, h, a, ffn, itemsize, activation)["mlp"] + itemsize * s * b * h}


@told("That is the table's 19 sbh. Here the hidden layer is ffn wide, a number has itemsize bytes, and ReLU may come.")
def as_in_the_table(s, b, h, a, *rest):
    return {"mlp": 19 * s * b * h}


@told("A linear layer keeps its input: the projection's is missing.")
def mask_alone(s, b, h, *rest):
    return {"projection": s * b * h}


@told("The projection's input is h wide: that of QKV's output is 3h.")
def three_wide(s, b, h, a, ffn, itemsize, activation):
    return {"projection": (3 * itemsize + 1) * s * b * h}


told("Elements were counted: all but the masks have itemsize bytes.")(lambda *args: terms(*args[:5], 1, args[6]))
told("Bytes were asked, not bytes for each of the sbh elements.")(
    lambda *args: {name: x / (args[0] * args[1] * args[2]) for name, x in terms(*args).items()}
)
told("Bytes were asked, not KiB.")(lambda *args: {name: x / 2**10 for name, x in terms(*args).items()})
told("Bytes were asked, not MiB.")(lambda *args: {name: x / 2**20 for name, x in terms(*args).items()})


# ---- Task 2: crossover ----

told = check.crossover.mistake
told(MISSING)(lambda *args: {})


def sequence(layers, h, a, s):
    return layers * (34 * s * h + 5 * a * s * s)


@told("More, not as much: the answer is the first number beyond the point where both sides are equal.")
def as_much(layers, h, a, s, n):
    return {"tokens": 34 * h // (5 * a), "batch": 16 * n // sequence(layers, h, a, s), "vocabulary": layers * h // 3}


@told(
    "It was rounded up. Where both sides are equal, that is one too few, because an equal number of bytes is not more: "
    "p // q + 1."
)
def rounded_up(layers, h, a, s, n):
    """Before the one below, whose numbers with a fraction are compared with a tolerance."""
    wanted = (34 * h, 5 * a), (16 * n, sequence(layers, h, a, s)), (layers * h, 3)
    return dict(zip(("tokens", "batch", "vocabulary"), (-(-p // q) for p, q in wanted), strict=True))


@told("A whole number was asked: the first one beyond the point where both sides are equal, p // q + 1.")
def not_whole(layers, h, a, s, n):
    return {"tokens": 34 * h / (5 * a), "batch": 16 * n / sequence(layers, h, a, s), "vocabulary": layers * h / 3}


@told("Divide 5as²b > 34sbh by sb: 5as > 34h. So s is more than 34h over 5a.")
def turned_over(layers, h, a, s, n):
    return {"tokens": 5 * h // (34 * a) + 1}


@told("Divide 5as²b > 34sbh by sb: 5as > 34h. So s is more than 34h over 5a.")
def times_a(layers, h, a, s, n):
    return {"tokens": 34 * h * a // 5 + 1}


@told("Every head has a matrix of its own: h/a decides, the width of one head, not h.")
def without_heads(layers, h, a, s, n):
    return {"tokens": 34 * h // 5 + 1}


@told("All layers keep activations: multiply by the layers.")
def one_layer(layers, h, a, s, n):
    return {"batch": 16 * n // sequence(1, h, a, s) + 1, "vocabulary": h // 3 + 1}


for state in (12, 10, 18, 20):
    told(
        "The training state is 16 bytes for each parameter: 2 and 2 for parameter and gradient, 12 for the optimizer."
    )(lambda layers, h, a, s, n, state=state: {"batch": state * n // sequence(layers, h, a, s) + 1})


@told("22 bytes for each parameter are there only while the update runs. The training state is 16.")
def state_of_22(layers, h, a, s, n):
    return {"batch": 22 * n // sequence(layers, h, a, s) + 1}


@told("The training state is 16 bytes for each parameter: gradients belong to it.")
def state_of_14(layers, h, a, s, n):
    return {"batch": 14 * n // sequence(layers, h, a, s) + 1}


@told("The training state is 16 bytes for each parameter, not the parameters alone.")
def state_of_2(layers, h, a, s, n):
    return {"batch": 2 * n // sequence(layers, h, a, s) + 1}


@told("8 bytes for each parameter is bfloat16 throughout. Here moments are float32, and there are master weights.")
def state_of_8(layers, h, a, s, n):
    return {"batch": 8 * n // sequence(layers, h, a, s) + 1}


@told("Nothing is recomputed here: the square is kept, too.")
def without_the_square(layers, h, a, s, n):
    return {"batch": 16 * n // (layers * 34 * s * h) + 1}


@told("The square has s twice: 5as²b.")
def square_of_one_s(layers, h, a, s, n):
    return {"batch": 16 * n // (layers * (34 * s * h + 5 * a * s)) + 1}


@told("5as/h was rounded down, because // comes too early: 34sbh + 5as²b has no division.")
def rounded_early(layers, h, a, s, n):
    return {"batch": 16 * n // (layers * s * h * (34 + 5 * a * s // h)) + 1}


@told("Nothing is recomputed here: a layer keeps sbh(34 + 5as/h), not its input alone.")
def inputs_alone(layers, h, a, s, n):
    return {"batch": 16 * n // (layers * 2 * s * h) + 1}


@told("In mixed precision activations have 2 bytes: a layer keeps sbh(34 + 5as/h).")
def in_float32(layers, h, a, s, n):
    return {"batch": 16 * n // (layers * (66 * s * h + 9 * a * s * s)) + 1}


@told("In mixed precision logits have 2 bytes each, as the layers' inputs do.")
def logits_in_float32(layers, h, a, s, n):
    return {"vocabulary": layers * h // 6 + 1}


@told("Logits and company have 2 bytes each: 6 bytes for the three of them, not 3.")
def logits_in_elements(layers, h, a, s, n):
    return {"vocabulary": 2 * layers * h // 3 + 1}


@told("What all layers keep, and nothing else: the last norm is no part of a layer.")
def with_the_norm(layers, h, a, s, n):
    return {"vocabulary": (2 * layers * h + 4 * h) // 6 + 1}


@told("Tokens stand on both sides: the logits, too, are there for each of the s tokens.")
def logits_of_one_token(layers, h, a, s, n):
    return {"vocabulary": layers * s * h // 3 + 1}


@told("Three tensors of the vocabulary's width: log-softmax, its gradient and the logits'.")
def logits_alone(layers, h, a, s, n):
    return {"vocabulary": layers * h + 1}


@told("Three tensors of the vocabulary's width: log-softmax, its gradient and the logits'. Two were counted.")
def two_tensors(layers, h, a, s, n):
    return {"vocabulary": layers * h // 2 + 1}


@told("Under full recomputation a layer keeps its input alone, 2sbh.")
def whole_layers(layers, h, a, s, n):
    return {"vocabulary": layers * (34 * h + 5 * a * s) // 6 + 1}


@told("Under full recomputation a layer keeps its input alone, 2sbh: 34sbh is selective recomputation.")
def selective_layers(layers, h, a, s, n):
    return {"vocabulary": layers * 34 * h // 6 + 1}


# ---- Task 3: attend ----

told = check.attend.mistake


def attention(scores, drop, at_zero=False):
    def attend(q, k, v, mask, p):
        probabilities = scores(q, k, mask).softmax(-1)
        return (drop(probabilities, p) if p or at_zero else probabilities) @ v

    return attend


def native(x, p):
    return torch.native_dropout(x, p, True)[0]


def inside(q, k, mask):
    return torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5)


def scaled_q(q, k, mask):
    return (q * q.shape[-1] ** -0.5) @ k.mT + mask


def filled(q, k, mask):
    return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(mask < 0, float("-inf"))


def wasteful(q, k, mask):
    return ((q * q.shape[-1] ** -0.5) @ k.mT).masked_fill(mask < 0, float("-inf"))


FIRST_Q = (
    "A second Q, K or V is kept: scaled or copied, it is a new tensor, and the old one shares its storage with others. "
)
told(FIRST_Q + "Scale the scores, by a number.")(attention(scaled_q, native))
told("masked_fill keeps its mask of s x s, and so does where. Adding a mask keeps nothing.")(attention(filled, native))
told("The dropout's mask is kept in the activation's dtype, as F.dropout does on a CPU. Which op keeps 1 byte each?")(
    attention(inside, F.dropout)
)
told("A mask and an output of dropout are kept, though p is 0: is native_dropout called then? It keeps them anyway.")(
    attention(inside, native, at_zero=True)
)
told("All three of the wasteful version's extras are still kept.")(attention(wasteful, F.dropout, at_zero=True))
told(FIRST_Q + "And F.dropout's mask is too wide.")(attention(scaled_q, F.dropout))
told(FIRST_Q + "And masked_fill keeps its mask.")(attention(wasteful, native))
told("masked_fill keeps its mask, and F.dropout a wide one.")(attention(filled, F.dropout))
told("The scores are not divided by √d.")(attention(lambda q, k, mask: q @ k.mT + mask, native))
told("The scores were divided by d, not by √d.")(attention(lambda q, k, mask: q @ k.mT / q.shape[-1] + mask, native))
told("The mask was left out: every token looks at every other.")(
    attention(lambda q, k, mask: q @ k.mT * q.shape[-1] ** -0.5, native)
)
told("The mask that was given is not used: another one is in its place.")(
    attention(lambda q, k, mask: inside(q, k, causal_mask(len(mask), mask.dtype)), native)
)
told("Nothing is dropped.")(attention(inside, lambda x, p: x))
for rest in (1, 0, None):
    told("The share that is dropped is not p.")(
        attention(inside, lambda x, p, rest=rest: x * (torch.rand_like(x) < p) / (p if rest is None else 1 - rest * p))
    )
told("Dropout divides what it keeps by 1 - p, so that the mean stays what it was.")(
    attention(inside, lambda x, p: x * (torch.rand_like(x) > p))
)


@told("That is fused attention, which was not allowed here; and on a CPU, with dropout, it computes op by op.")
def fused(q, k, v, mask, p):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, dropout_p=p)[0]


@told("That is fused attention, which was not allowed here; and on a CPU, with dropout, it computes op by op.")
def fused_and_causal(q, k, v, mask, p):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=p)


told("The scores were multiplied by √d: divide by it.")(
    attention(lambda q, k, mask: q @ k.mT * q.shape[-1] ** 0.5 + mask, native)
)
told("The scores were divided by √s: d is the last dimension of q.")(
    attention(lambda q, k, mask: q @ k.mT * q.shape[-2] ** -0.5 + mask, native)
)
told("The mask is added to the scores: it is 0 where a token may look, and -inf where not.")(
    attention(lambda q, k, mask: q @ k.mT * q.shape[-1] ** -0.5 * mask, native)
)
for kind in (None, torch.float32, torch.float64):
    told("A tensor of one number is kept: the scores were scaled by it. Scale by a number of Python's.")(
        attention(
            lambda q, k, mask, kind=kind: q @ k.mT * torch.tensor(q.shape[-1] ** -0.5, dtype=kind or q.dtype) + mask,
            native,
        )
    )
told("Copies are kept: scaling both Q and K, or contiguous(), makes new tensors, and the old storage stays, too.")(
    attention(lambda q, k, mask: inside(q.contiguous(), k.contiguous(), mask), native)
)


def mistaken_in(message, weights):
    """Another way to the probabilities, dropout included."""
    told(message)(lambda q, k, v, mask, p: weights(q, k, mask, p) @ v)


def maybe(x, p):
    return native(x, p) if p else x


@told("The dropout's output is not kept, and should be: is it the dropout's output that is multiplied by V?")
def no_output(q, k, v, mask, p):
    """Only what it keeps is of interest: as much as if scores were dropped, or the product with V forgotten."""
    return 0 * maybe(inside(q, k, mask).softmax(-1), p)


@told("The product with V is missing: these are the probabilities.")
def without_v(q, k, v, mask, p):
    return maybe(inside(q, k, mask).softmax(-1), p)


for dimension in (1, 0):
    mistaken_in(
        "Each token's weights sum to 1: softmax runs over the last dimension, the tokens that are looked at.",
        lambda q, k, mask, p, dimension=dimension: maybe(inside(q, k, mask).softmax(dimension), p),
    )
mistaken_in(
    "A second matrix of s x s is kept: between softmax and the product with V there is dropout alone.",
    lambda q, k, mask, p: maybe(inside(q, k, mask).softmax(-1) / 3, p),
)
mistaken_in(
    "The mask is added to the scores, in front of softmax.",
    lambda q, k, mask, p: maybe((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) + mask, p),
)
mistaken_in(
    "Dropout comes behind softmax: it drops probabilities, not scores.",
    lambda q, k, mask, p: maybe(inside(q, k, mask), p).softmax(-1),
)
DTYPE = "Something is kept in another dtype than q's, or in both: compute softmax in q's own."
mistaken_in(DTYPE, lambda q, k, mask, p: maybe(inside(q, k, mask).softmax(-1, dtype=torch.float32).to(q.dtype), p))


@told(DTYPE)
def all_in_float32(q, k, v, mask, p):
    return (maybe(inside(q, k, mask).float().softmax(-1), p) @ v.float()).to(q.dtype)


@told("Softmax by hand keeps the exponentials, and more: the op `softmax` keeps its output alone.")
def by_hand(q, k, v, mask, p):
    scores = inside(q, k, mask)
    return maybe(scores.exp() / scores.exp().sum(-1, keepdim=True), p) @ v


@told("Dropout comes in front of the product with V: it drops probabilities, not outputs.")
def drops_outputs(q, k, v, mask, p):
    return maybe(inside(q, k, mask).softmax(-1) @ v, p)


@told("Under no_grad nothing is recorded: Q and K get no gradient.")
def not_recorded(q, k, v, mask, p):
    with torch.no_grad():
        probabilities = maybe(inside(q, k, mask).softmax(-1), p)
    return probabilities @ v


class Again(torch.autograd.Function):
    """What a checkpoint keeps: its arguments. (Its gradients are of no interest here.)"""

    @staticmethod
    def forward(ctx, y, *kept):
        ctx.save_for_backward(*kept)
        return y.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None, *(torch.zeros_like(t) for t in ctx.saved_tensors)


for masks in (True, False):

    @told("That is a checkpoint, which keeps less because it computes all of it again: not allowed here.")
    def checkpointed(q, k, v, mask, p, masks=masks):
        return Again.apply(not_recorded(q, k, v, mask, p).detach(), q, k, v, *([mask] if masks else []))


# ---- Task 4: largest_batch ----

told = check.largest_batch.mistake


def batches(layers, h, a, s, v, n, nbytes, strategy, state=14, update=22, norm=4, head=6, kept=None, how=floordiv):
    layer = {"none": 34 * s * h + 5 * a * s * s, "selective": 34 * s * h, "full": 2 * s * h, **(kept or {})}[strategy]
    one = layers * layer + norm * s * h + head * s * v
    if update * n > nbytes:
        return 0
    room = nbytes - state * n
    return how(room, one)


def mistaken(message, **change):
    told(message)(lambda **given: batches(**given, **change))


mistaken("The update was forgotten: it needs 22 bytes for each parameter, whatever the batch.", update=0)


@told("If the update does not fit, the largest batch is 0.")
def minus_one(**given):
    return batches(**given) if 22 * given["n"] <= given["nbytes"] else -1


@told("At most nbytes: an update that needs exactly as much as the card has does fit.")
def must_be_less(**given):
    return batches(**given) if 22 * given["n"] < given["nbytes"] else 0


@told("At least one sequence was assumed to fit. If none does, the largest batch is 0.")
def at_least_one(**given):
    return max(1, batches(**given))


# small errors first: a small batch may hide which of two it was
DOWN = "The last batch must fit as a whole: round down."
mistaken("Rounded to the nearest. " + DOWN, how=lambda room, one: round(room / one))
mistaken("Rounded up. " + DOWN, how=lambda room, one: -(-room // one))
mistaken("Rounded up. " + DOWN, how=lambda room, one: room // one + 1)
for least in (0, -1):
    mistaken(
        "One too few. At most nbytes: a division, rounded down, is the largest batch already.",
        how=lambda room, one, least=least: max(least, room // one - 1),
    )
for state in (16, 22, 12, 10, 2):

    @told("While the head runs backward there are 14 bytes for each parameter: 2, and the optimizer's 12.")
    def another_state(state=state, **given):
        """A long sequence does not show which: the other parts do, and -2 is nobody's answer to them."""
        return batches(**given, state=state) if given["s"] > 100_000 else -2


mistaken("The 4sh bytes around the last norm were forgotten.", norm=0)
mistaken("The parameters themselves have 2 bytes each, beside the optimizer's 12.", state=12)
mistaken("There are no gradients yet when the head runs backward: 14 bytes for each parameter, not 16.", state=16)
mistaken("Master weights have 4 bytes each: the optimizer's 8 and 4, and the parameter's 2, are 14.", state=10)
mistaken("The optimizer's 12 bytes for each parameter are there all the time: 14 with the parameter.", state=2)
for update in (22, 0):
    mistaken(
        "22 bytes for each parameter are the update's. When the head runs backward there are 14, and the batch's.",
        state=22,
        update=update,
    )
mistaken("Log-softmax, its gradient and the logits': three tensors of 2 bytes each, and one was counted.", head=2)
mistaken("Log-softmax, its gradient and the logits': three tensors of 2 bytes each, and two were counted.", head=4)
mistaken(
    "Log-softmax, its gradient and the logits': three tensors of 2 bytes each. Their elements were counted.", head=3
)
mistaken("Log-softmax, its gradient and the logits' grow with the batch, too: they were forgotten.", head=0)
mistaken("Logits in mixed precision are bfloat16 here: three tensors of 2 bytes each.", head=12)
mistaken("A batch is a whole number of sequences: divide with //, not with /.", how=truediv)
KEPT = [
    lambda sh, square: {"selective": square, "full": 34 * sh},
    lambda sh, square: {"selective": 2 * sh},
    lambda sh, square: {"selective": 34 * sh + square * 2 // 5},
    lambda sh, square: {"none": 34 * sh},
    lambda sh, square: {"full": 0},
    lambda sh, square: {"full": sh},
    lambda sh, square: {"full": 4 * sh},
]
for kept in KEPT:

    @told("Full recomputation keeps each layer's input, 2sbh; selective keeps 34sbh; none the square besides.")
    def another_kept(kept=kept, **given):
        sh = given["s"] * given["h"]
        return batches(**given, kept=kept(sh, 5 * given["a"] * given["s"] ** 2))


@told("The square has s twice: 5as²b.")
def square_with_one_s(**given):
    return batches(**given, kept={"none": 34 * given["s"] * given["h"] + 5 * given["a"] * given["s"]})


ONCE = "The last norm and the logits are there once for each sequence, not for each layer."


@told(ONCE)
def norm_in_each_layer(**given):
    return batches(**given, norm=4 * given["layers"])


@told(ONCE)
def head_in_each_layer(**given):
    return batches(**given, norm=4 * given["layers"], head=6 * given["layers"])


@told("Logits and the bytes around the last norm are there for each sequence: they grow with the batch.")
def head_once(**given):
    s, h, v = given["s"], given["h"], given["v"]
    once = 4 * s * h + 6 * s * v
    return max(
        0, batches(**given | {"nbytes": given["nbytes"]}, norm=0, head=0, how=lambda room, one: (room - once) // one)
    )


@told("When the head runs backward no layer is recomputed yet: there is what all layers keep, and no more of them.")
def one_layer_again(**given):
    square, rest = 5 * given["a"] * given["s"] ** 2, 34 * given["s"] * given["h"]
    whole = {"none": 0, "selective": square, "full": rest + square}[given["strategy"]]
    return batches(**given, how=lambda room, one: room // (one + whole))


@told("Every layer keeps activations: multiply by the layers.")
def one_layer_alone(**given):
    return batches(**given | {"layers": 1})


@told("Every layer keeps activations: multiply by the layers.")
def one_input_alone(**given):
    return batches(**given | {"layers": 1} if given["strategy"] == "full" else given)


# ---- Task 5: audit ----

told = check.audit.mistake
told(MISSING)(lambda **c: {})
GB, GIB = 10**9, 2**30
PRODUCTS = [f"{what}, {unit}" for what in ("one layer", "all layers") for unit in ("GB", "GiB")]


def verdict(
    number, layers, hidden, units=(("GB", GB), ("GiB", GIB)), near=None, text="{0}, {1}", neither="neither", which=0
):
    decimals, found = len(number.split(".")[1]), []
    for what, times in (("one layer", 1), ("all layers", layers)):
        for unit, nbytes in units:
            x = times * hidden / nbytes
            if f"{x:.{decimals}f}" == number if near is None else near(x, number):
                found.append(text.format(what, unit))
    return found[which] if found else neither


def audited(number, layers, width, ffn, tokens, hidden=8, swiglu=8, unit=GIB, **how):
    one = hidden * tokens * width
    return {
        "hidden_gib": one / unit,
        "swiglu_gib": swiglu * tokens * ffn / unit,
        "means": verdict(number, layers, one, **how),
    }


told("A bfloat16 has 2 bytes: 4 were counted.")(lambda **c: audited(**c, hidden=16, swiglu=16) | {"means": None})
told("A bfloat16 has 2 bytes: elements were counted.")(lambda **c: {"hidden_gib": audited(**c, hidden=4)["hidden_gib"]})
told("GiB is 2³⁰ bytes: this one is in GB.")(lambda **c: audited(**c, unit=GB) | {"means": None})
told("A SwiGLU keeps four tensors of its width: gate, SiLU of gate, up, and their product.")(
    lambda **c: {"swiglu_gib": audited(**c, swiglu=2)["swiglu_gib"]}
)
told("A SwiGLU keeps four tensors of its width, not three: gate, SiLU of gate, up, and their product.")(
    lambda **c: {"swiglu_gib": audited(**c, swiglu=6)["swiglu_gib"]}
)
told("Exactly half: elements for bytes, or two tensors? A SwiGLU keeps four: gate, SiLU of gate, up, their product.")(
    lambda **c: {"swiglu_gib": audited(**c, swiglu=4)["swiglu_gib"]}
)
told("The four tensors of width ffn were asked, without the input, which is `width` wide.")(
    lambda **c: {"swiglu_gib": audited(**c)["swiglu_gib"] + 2 * c["tokens"] * c["width"] / GIB}
)
told("The SwiGLU is ffn wide, not 4 · width.")(
    lambda **c: {"swiglu_gib": audited(**c | {"ffn": 4 * c["width"]})["swiglu_gib"]}
)
told("The hidden layer of the claim is 4 · width, not ffn, and not width.")(
    lambda **c: {"hidden_gib": audited(**c, hidden=2)["hidden_gib"]}
)
told("The hidden layer of the claim is 4 · width wide: ffn is the real model's.")(
    lambda **c: {"hidden_gib": 2 * c["tokens"] * c["ffn"] / GIB}
)
told("One layer was asked: all layers were counted.")(
    lambda **c: {name: c["layers"] * x for name, x in audited(**c).items() if name != "means"}
)
told("GB and GiB are the wrong way round.")(
    lambda **c: {"means": audited(**c, units=(("GiB", GB), ("GB", GIB)))["means"]}
)
told("Only GB was tried: the label may be wrong, and the number GiB.")(
    lambda **c: {"means": audited(**c, units=(("GB", GB),))["means"]}
)
told("Only GiB was tried: the label may be right, and the number GB.")(
    lambda **c: {"means": audited(**c, units=(("GiB", GIB),))["means"]}
)
told(
    "None of the products was found. Each is made with the hidden tensor, of 2 bytes a number, rounded to as many "
    "decimals as `number` has, and compared as text."
)(lambda **c: {"means": "neither"})
told('A number may end in 0: the text of round(0.5, 2) is "0.5", not "0.50". Make the text with f"{x:.2f}".')(
    lambda **c: {"means": audited(**c, near=lambda x, y: str(round(x, len(y.split(".")[1]))) == y)["means"]}
)
NEAR = [
    lambda x, y: abs(x - y) < 0.1 * y,
    lambda x, y: abs(x - y) < 0.05 * y,
    lambda x, y: abs(x - y) < 0.01 * y,
    lambda x, y: abs(x - y) < 0.5,
    lambda x, y: abs(x - y) < 0.1,
    lambda x, y: int(x) == int(y),
    lambda x, y: round(x) == round(y),
]
for near, which in product(NEAR, (0, -1)):  # the first that is near, or the last
    told("That is too generous: near is not equal. Round to as many decimals as the number has, and compare.")(
        lambda near=near, which=which, **c: {
            "means": audited(**c, near=lambda x, y: near(x, float(y)), which=which)["means"]
        }
    )
for only in PRODUCTS:
    told(f'Of the four products only "{only}" is ever found: does an else or a return in the loop undo the others?')(
        lambda only=only, **c: {"means": only if audited(**c)["means"] == only else "neither"}
    )
for decimals in (2, 1, 3):
    told("Not every number has so many decimals: count those of `number`, and round the product to as many.")(
        lambda decimals=decimals, **c: {"means": audited(**c, near=lambda x, y: f"{x:.{decimals}f}" == y)["means"]}
    )
told("The product is to be rounded, not cut off.")(
    lambda **c: {"means": audited(**c, near=lambda x, y: str(x).startswith(y))["means"]}
)
for text in ("{1}, {0}", "{0},{1}", "{0} {1}", "{0}, in {1}", "{0} in {1}"):
    told('The product was found, but the text is another: spell it as in the task, such as "all layers, GiB".')(
        lambda text=text, **c: {"means": audited(**c, text=text)["means"]}
    )


@told("One layer and all layers are the wrong way round.")
def other_count(**c):
    what, comma, unit = audited(**c)["means"].partition(", ")
    return {"means": {"one layer": "all layers", "all layers": "one layer"}.get(what, what) + comma + unit}


@told("One layer was never tried: the page may be right about that.")
def all_layers_only(**c):
    means = audited(**c)["means"]
    return {"means": means if means.startswith("all layers") else "neither"}


@told("All layers were never tried: the number may be layers times too large.")
def one_layer_only(number, **c):
    return {"means": audited(number, **c | {"layers": 1})["means"]}


for instead in (None, "", "none", *PRODUCTS):
    told('If no product fits, the answer is "neither".')(
        lambda instead=instead, **c: {"means": audited(**c, neither=instead)["means"]}
    )


@told('The nearest product was taken. If none of them, rounded, is `number`, the answer is "neither".')
def nearest(number, layers, width, tokens, **c):
    times, units = {"one layer": 1, "all layers": layers}, {"GB": GB, "GiB": GIB}
    far = {f"{w}, {u}": abs(8 * tokens * width * times[w] / units[u] - float(number)) for w, u in product(times, units)}
    return {"means": min(far, key=far.get)}


told("That is in bytes: 1 GiB is 2³⁰ of them.")(lambda **c: audited(**c, unit=1) | {"means": None})
told("That is in MiB: 1 GiB is 2³⁰ bytes.")(lambda **c: audited(**c, unit=2**20) | {"means": None})
for digits in (0, 1, 2, 3):
    told("This one was rounded: give it as it is. Only the product that is compared with `number` is rounded.")(
        lambda digits=digits, **c: {name: round(x, digits) for name, x in audited(**c).items() if name != "means"}
    )
told("This one was rounded: give it as it is. Only the product that is compared with `number` is rounded.")(
    lambda **c: {name: round(x, len(c["number"].split(".")[1])) for name, x in audited(**c).items() if name != "means"}
)
told("Text was returned, and a float is asked: give the number as it is.")(
    lambda **c: {name: str(x) for name, x in audited(**c).items() if name != "means"}
)
told("A float was asked: divide with /, not with //.")(
    lambda **c: {name: int(x) for name, x in audited(**c).items() if name != "means"}
)
