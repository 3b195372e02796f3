"""How the answers of assignment 8 are asked. Grading asks the same questions, with other numbers."""

import torch

import ckptlib as ck
from ckptlib.grading import Checks
from ckptlib.models.transformer import causal_mask

check = Checks(__file__)


def by_name(answers, names):
    """A list of dicts -> a dict of lists; "missing" for an entry that some dict lacks."""
    names = names.split()
    for answer in answers:
        if answer is not None and not isinstance(answer, dict):
            raise TypeError(f"returned a {type(answer).__name__}, expected a dict with {', '.join(map(repr, names))}")
    if any(answer is None for answer in answers):
        return dict.fromkeys(names)
    whole = {name for name in names if all(name in answer for answer in answers)}
    return {name: [answer[name] for answer in answers] if name in whole else "missing" for name in names}


@check.task(points=2, section="8.1", parts=True)
def layer_terms(given, layer_terms):
    found = []
    for itemsize, activation in ((2, "gelu"), (4, "relu"), (4, "gelu"), (2, "relu")):
        a = given.integer(2, 40)
        h = a * given.choice([32, 48, 64, 96, 128])
        ffn = h * given.choice([2, 3, 5]) + 8 * given.integer(1, 60)
        found.append(layer_terms(given.integer(16, 3000), given.integer(2, 30), h, a, ffn, itemsize, activation))
    return by_name(found, "norms qkv square projection mlp")


@check.task(points=1.5, section="8.2 to 8.5", cases=3, parts=True)
def crossover(given, crossover):
    a, layers = given.integer(4, 96), given.choice([12, 24, 36, 48, 96])
    h, s = a * given.choice([40, 60, 80, 120, 160]), 2 * given.integer(50, 250) + 1  # odd: 5as/h is never whole
    n = layers * h * s * given.integer(5000, 50_000)
    as_much = layers * s * (34 * h + 5 * a * s) * given.integer(3, 9)  # so many parameters that a batch needs as much
    return by_name([crossover(layers, h, a, s, each) for each in (n, as_much)], "tokens batch vocabulary")


@check.task(points=2, section="8.1 and 8.2", parts=True)
def attend(given, attend):
    n, s, d = 2, given.integer(5, 6), given.integer(2, 3)
    p = given.choice([0.2, 0.3, 0.4])
    leaf = given.normal(n, s, 3 * d).requires_grad_()
    y = attend(*(leaf * 1).chunk(3, -1), causal_mask(s, leaf.dtype).mT, 0.0)  # a mask of one's own is another
    if y is None:
        return dict.fromkeys(("values", "dropout", "kept with dropout", "kept without"))
    (gradient,) = torch.autograd.grad(y.square().sum(), leaf)

    n, s, d = given.integer(2, 6), given.integer(8, 20), given.integer(3, 9)
    others = [given.normal(n, s, 3 * d, dtype=dtype).requires_grad_() for dtype in (torch.bfloat16, torch.float64)]

    def run(other, p):
        return attend(*(other * 1).chunk(3, -1), causal_mask(s, other.dtype), p)

    def kept(p):
        return [ck.saved_tensors(lambda other=other: run(other, p)).nbytes for other in others]

    return {
        "values": [y.detach(), gradient],
        "dropout": drops(given, attend, p),
        "kept with dropout": kept(p),
        "kept without": kept(0.0),
    }


def drops(given, attend, p):
    """Which share is dropped, and what becomes of the rest? v is the identity: y are the probabilities."""
    q, k = given.normal(8, 96, 96), given.normal(8, 96, 96)
    args = (q / 4, k / 4, torch.eye(96).expand(8, 96, 96), torch.zeros(96, 96))
    given.seeded()
    plain, state = attend(*args, 0.0), torch.get_rng_state()
    first, other = attend(*args, p), attend(*args, p)
    torch.set_rng_state(state)
    again = attend(*args, p)
    rest = first != 0
    share = 1 - float(rest[plain != 0].float().mean())
    grown = (first / plain)[rest]

    def times(factor):
        return bool(((grown / factor - 1).abs() < 0.01).all())

    dropped = "a share p" if abs(share - p) < 0.02 else "nothing" if share < 0.02 else "another share"
    kept = "divided by 1 - p" if times(1 / (1 - p)) else "as it was" if times(1) else "divided by something else"
    return {"dropped": dropped, "the rest": kept, "drawn": drawn(*(y != 0 for y in (first, other, again)))}


def drawn(first, second, again):
    """Which probabilities are dropped? first and second: by two calls; again: from the same state as the first."""
    alike = (first[0] == first[1]).all(), (first[:, 0] == first[:, 1]).all(), (first[..., 0] == first[..., 1]).all()
    if any(alike):
        return "several probabilities together"
    if torch.equal(first, second):
        return "the same ones in each call"
    return "different ones in each call" if torch.equal(first, again) else "not from torch's own generator"


@check.task(points=2, section="8.3 to 8.5", cases=3, parts=True)
def largest_batch(given, largest_batch):
    a, layers, s = given.integer(8, 32), given.integer(12, 60), given.choice([512, 1024, 2048])
    h, v = a * given.choice([64, 96, 128]), given.integer(30_000, 130_000)
    sizes = {"layers": layers, "h": h, "a": a, "v": v, "n": layers * 12 * h * h + v * h}
    room = [given.integer(50, 900), given.integer(50, 900), given.integer(5_000_000, 9_000_000)]  # GB
    cards = [22 * sizes["n"] + gigabytes * 10**9 for gigabytes in (*room, 0)]  # 0: for the update alone

    def ask(strategies, cards, s):
        pairs = [(strategy, nbytes) for strategy in strategies for nbytes in cards]
        batches = [largest_batch(**sizes, s=s, nbytes=nbytes, strategy=strategy) for strategy, nbytes in pairs]
        return None if None in batches else batches

    found = {
        strategy: lambda strategy=strategy: ask([strategy], cards, s) for strategy in ("none", "selective", "full")
    }
    small, large = 22 * sizes["n"] - given.integer(1, 10**6), [22 * sizes["n"] + x * 10**12 for x in (5, 5000)]
    long = given.choice([131_072, 262_144])
    found["too small for the update"] = lambda: ask(["none", "full"], [small], s)
    found["a long sequence"] = lambda: ask(["none", "full"], large, long)
    return found


@check.task(points=1.5, section="8.6", parts=True)
def audit(given, audit):
    found = by_name([audit(**claim) for claim in claims(given)], "hidden_gib swiglu_gib means")
    for name in ("hidden_gib", "swiglu_gib"):
        if isinstance(found[name], list) and any(isinstance(entry, str) for entry in found[name]):
            found[name] = "text"
    return found


def claims(given):
    """Seven claims, in any order: which bytes are meant, and in which unit; or no bytes at all, if only just."""
    digits = given.choice([{10**9: 1, 2**30: 2}, {10**9: 2, 2**30: 1}])  # and one more if one layer is meant
    kinds = [(one, unit, digits[unit] + one, "") for one in (True, False) for unit in digits]
    kinds += [(False, 1.3e9, given.integer(1, 2), ""), (False, 1.005e9, given.integer(2, 3), "")]
    kinds.append((False, min(digits, key=digits.get), 3, "0"))  # this product with other decimals, too
    while kinds:
        one, unit, decimals, end = kinds.pop(given.integer(0, len(kinds) - 1))
        claim = one_claim(given, one, unit, decimals)
        while not claim["number"].endswith(end):
            claim = one_claim(given, one, unit, decimals)
        yield claim


def one_claim(given, one, unit, decimals):
    layers, width = 2 * given.integer(10, 65) + 1, 128 * (2 * given.integer(25, 70) + 1)  # odd: no product is exact
    ffn, tokens = 128 * given.integer(60, 420), given.choice([4096, 8192, 16_384])
    number = f"{8 * tokens * width * (1 if one else layers) / unit:.{decimals}f}"
    return {"number": number, "layers": layers, "width": width, "ffn": ffn, "tokens": tokens}


check.add_quiz(points=1, names="q1, q2, q3, q4", section="8.2, 8.4 and 8.5")
