"""What is known about wrong answers to assignment 12, and what to say to each.

A mistake is the reference with a slip of the pen, and is written as what was meant and what was written.
"""

import math

import torch
from tasks import check
from torch.nn import functional as F


class Slips:
    """Answers that differ from `code` by a few words each."""

    def __init__(self, task, name, code):
        self.task, self.name, self.code = task, name, code

    def __call__(self, message, *slips):
        code = self.code
        for meant, written in slips:
            assert meant in code, (message, meant)
            code = code.replace(meant, written)
        namespace = {"math": math, "torch": torch, "F": F}
        exec(code, namespace)
        self.task.mistake(message)(namespace[self.name])


# ---- Task 1: one_pass ----
slip = Slips(
    check.one_pass,
    "one_pass",
    """
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]
""",
)
slip(
    ("The old z was not corrected. When a larger score arrives, z is multiplied by the factor as well as o."),
    ("z = z * shrink", "z = z"),
)
slip(
    ("The old o was not corrected. When a larger score arrives, o is multiplied by the factor as well as z."),
    ("o = o * shrink", "o = o"),
)
slip(
    ("The old sums were not corrected. When a larger score arrives, they are multiplied by a factor (section 12.1)."),
    ("z = z * shrink", "z = z"),
    ("o = o * shrink", "o = o"),
)
slip("The factor was used twice for z: it corrects the old sum once.", ("z = z * shrink", "z = z * shrink * shrink"))
slip(
    ("New terms were multiplied by the factor, too. Only the old sum is relative to the old maximum."),
    ("z * shrink + weights.sum(-1, keepdim=True)", "(z + weights.sum(-1, keepdim=True)) * shrink"),
    ("o * shrink + weights @ values", "(o + weights @ values) * shrink"),
)
slip(
    (
        "If all keys of a row are hidden so far, −∞ − (−∞) is not a number. Start with a finite "
        "maximum far below all scores."
    ),
    ("-1e30", "-math.inf"),
)
slip(
    (
        "The maximum of a row has to come from its own scores. Relative to a larger number, such "
        "as 0 or the maximum of another row, the exponentials of a row may all underflow."
    ),
    ("-1e30", "0.0"),
)
slip(
    ("Without the maximum, the exponential of a large score overflows, and that of a very negative one is 0."),
    ("larger = torch.maximum(m, scores.amax(-1, keepdim=True))", "larger = torch.tensor(0.0, dtype=torch.float64)"),
    ("-1e30", "0.0"),
)
slip("The logsumexp is m + ln z: m is missing.", ("(m + z.log())", "z.log()"))
slip("The logsumexp is m + ln z: this is the largest score alone.", ("(m + z.log())[:, 0]", "m[:, 0]"))
slip("The logsumexp is m + ln z: the logarithm is missing.", ("(m + z.log())", "(m + z)"))
slip("The logsumexp is m + ln z: the logarithm was subtracted.", ("(m + z.log())", "(m - z.log())"))
slip("The logarithm is the natural one, and not that of base 2.", ("z.log()", "z.log2()"))
slip("This is the sum of the exponentials. Its logarithm is asked for.", ("(m + z.log())", "(m.exp() * z)"))
slip(
    "`lse` has one number per row, in the shape (rows,): the last dimension is left over.",
    ("(m + z.log())[:, 0]", "m + z.log()"),
)
slip("The weighted sum was not divided by z, so the weights do not add up to 1.", ("return o / z", "return o"))
slip(
    "The weighted sum was divided by the number of keys, and not by the sum of their weights.",
    (
        "m, z, o =",
        """n = 0
    m, z, o =""",
    ),
    ("m = larger", "m, n = larger, n + len(values)"),
    ("o / z", "o / n"),
)
slip(
    "Only the last piece was used. The softmax is over all pieces of the row.",
    ("z * shrink + ", ""),
    ("o * shrink + ", ""),
)
slip(
    "The first piece was left out, perhaps because it was read for its shape only.",
    (
        "for scores",
        """next(pieces)
    for scores""",
    ),
)
slip(
    ("Each piece was given a softmax of its own, and the results were added. The softmax is over all pieces."),
    (
        "z = z * shrink + weights.sum(-1, keepdim=True)",
        (
            """z = z * shrink + weights.sum(-1, keepdim=True)
        part = scores.softmax(-1) @ """
            "values"
        ),
    ),
    ("o * shrink + weights @ values", "o + part"),
    ("return o / z", "return o"),
)
slip(
    (
        "Each piece was given a softmax of its own, and the results were averaged. A piece with "
        "larger scores counts more."
    ),
    (
        "o = o * shrink + weights @ values",
        """o = o + scores.softmax(-1) @ values
        n += 1""",
    ),
    (
        "m, z, o =",
        """n = 0
    m, z, o =""",
    ),
    ("o / z", "o / n"),
)
slip(
    "A hidden key was given the score 0. A score of −∞ has the weight 0.",
    (
        "for scores, values in pieces:",
        (
            """for scores, values in pieces:
        scores = scores.masked_fill(scores == -math.inf, """
            "0.0)"
        ),
    ),
)
slip(
    "All pieces were kept in memory. Use each piece when it arrives, and forget it.",
    (
        "m, z, o =",
        """pieces = list(pieces)
    m, z, o =""",
    ),
)
slip(
    "The smallest score was taken in place of the largest, so the exponentials overflow.",
    ("torch.maximum(m, scores.amax(-1, keepdim=True))", "scores.amin(-1, keepdim=True)"),
    ("-1e30", "0.0"),
)

# ---- Task 2: predict ----
slip = Slips(
    check.predict,
    "predict",
    """
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product
""",
)
slip(
    "Numbers were counted, and not bytes: each takes `itemsize` bytes.", ("itemsize * numbers[which]", "numbers[which]")
)
slip("Each number was taken to have 4 bytes. It has `itemsize`.", ("itemsize * numbers", "4 * numbers"))
slip(
    "Q, K and V were counted. They are inputs, and do not count here.",
    (
        '{"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}',
        ('{"plain": a * b * (b + 3 * c), "checkpoint": 3 * a * b * c, "tiles": a * b * (4 * c + 1)}'),
    ),
)
slip(
    (
        "Plain attention was taken to save scores and probabilities. Softmax saves its output "
        "only, and scaling saves nothing."
    ),
    ('"plain": a * b * b,', '"plain": 2 * a * b * b,'),
)
slip("Every head has a square of its own: the number of heads is missing.", ('"plain": a * b * b,', '"plain": b * b,'))
slip("The square has b × b scores per head, and not b × c.", ('"plain": a * b * b,', '"plain": a * b * c,'))
slip("With tiles, the logsumexp is saved as well: one number per row and head.", ("(c + 1)", "c"))
slip(
    ("With tiles, the output is saved as well. Without it, δ could not be computed before the first tile."),
    ("a * b * (c + 1)", "a * b"),
)
slip(
    ("With tiles, one number per row is saved, the logsumexp. It contains the maximum and the sum."),
    ("(c + 1)", "(c + 2)"),
)
slip(
    ("The logsumexp is one number per row and head, and not one number per row for all heads together."),
    ("a * b * (c + 1)", "a * b * c + b"),
)
slip(
    "An ordinary checkpoint around attention saves nothing besides Q, K and V.",
    ('"checkpoint": 0, "tiles"', '"checkpoint": a * b * b, "tiles"'),
)
slip(
    ("The output of a checkpoint is not saved by the checkpoint. (A later layer may save it as its input.)"),
    ('"checkpoint": 0, "tiles"', '"checkpoint": a * b * c, "tiles"'),
)
slip(
    ("The plain MLP saves four tensors of the hidden width: the gate, SiLU of the gate, up, and their product."),
    ('"plain": 4 * a * c', '"plain": 3 * a * c'),
)
slip(
    (
        "The plain MLP saves four tensors of the hidden width: SiLU's input is the gate, and "
        "SiLU's output is a factor of the product."
    ),
    ('"plain": 4 * a * c', '"plain": 5 * a * c'),
)
slip(
    "The input of the MLP was counted. Inputs do not count here.",
    (
        '"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0',
        '"plain": 4 * a * c + a * b, "two": 2 * a * c + a * b, "checkpoint": a * b',
    ),
)
slip(
    "The weights were counted. They are there anyway, and do not count here.",
    (
        '"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0',
        '"plain": 4 * a * c + 3 * b * c, "two": 2 * a * c + 3 * b * c, "checkpoint": 3 * b * c',
    ),
)
slip("The gate and up are two tensors of the hidden width.", ('"two": 2 * a * c', '"two": a * c'))
slip(
    "The product of SiLU and up is computed again from the gate and up. It is not saved.",
    ('"two": 2 * a * c', '"two": 3 * a * c'),
)
slip(
    "The hidden tensors are c wide. They were counted with the width of x.",
    ('"plain": 4 * a * c, "two": 2 * a * c', '"plain": 4 * a * b, "two": 2 * a * b'),
)
slip(
    "A checkpoint around the MLP saves nothing besides its inputs.",
    ('"two": 2 * a * c, "checkpoint": 0', '"two": 2 * a * c, "checkpoint": 2 * a * c'),
)
slip(
    "A multiplication and an addition are two FLOPs: every product was counted half.",
    ("product = 2 * a * b * b * c", "product = a * b * b * c"),
    ("product = 2 * a * b * c", "product = a * b * c"),
)
slip(
    ("These are the FLOPs of the forward pass only. The backward pass of a product runs two more."),
    ('"plain": 6, "checkpoint": 7, "tiles": 7', '"plain": 2, "checkpoint": 2, "tiles": 2'),
    ('"plain": 9, "two": 9, "checkpoint": 11', '"plain": 3, "two": 3, "checkpoint": 3'),
)
slip(
    "Early stop was forgotten: the last product of the segment does not run again.",
    ('"checkpoint": 7', '"checkpoint": 8'),
    ('"checkpoint": 11', '"checkpoint": 12'),
)
slip(
    "The products that run again were forgotten.",
    ('"checkpoint": 7, "tiles": 7', '"checkpoint": 6, "tiles": 6'),
    ('"checkpoint": 11', '"checkpoint": 9'),
)
slip(
    (
        "The tiles run one product again, that of the scores. The output is saved, so the product"
        " with V does not run again."
    ),
    ('"tiles": 7', '"tiles": 8'),
)
slip("The tiles run one product again in the backward pass, that of the scores.", ('"tiles": 7', '"tiles": 6'))
slip(
    "A checkpoint around the MLP repeats two products, gate and up. One was counted.",
    ('"checkpoint": 11', '"checkpoint": 10'),
)
slip(
    (
        "SiLU and the product are computed again without any matrix product: with two tensors "
        "saved, no product runs again."
    ),
    ('"two": 9', '"two": 11'),
)
slip(
    ("Attention has a product of this size for every head: the number of heads is missing in the FLOPs."),
    ("product = 2 * a * b * b * c", "product = 2 * b * b * c"),
)

# ---- Task 3: Gated ----
slip = Slips(
    check.gated,
    "Gated",
    """
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, w_down):
        ctx.save_for_backward(gate, up, w_down)
        return (F.silu(gate) * up) @ w_down.T

    @staticmethod
    def backward(ctx, dy):
        gate, up, w_down = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        d_product = dy @ w_down
        d_gate = d_product * up * (sigmoid + silu * (1 - sigmoid))
        d_up = d_product * silu
        d_down = dy.T @ (silu * up)
        return d_gate, d_up, d_down
""",
)
slip(
    "The derivative of SiLU is σ(g) + g·σ(g)·(1 − σ(g)). The second term is missing.",
    ("(sigmoid + silu * (1 - sigmoid))", "sigmoid"),
)
slip(
    "The derivative of SiLU is σ(g) + g·σ(g)·(1 − σ(g)). The first term is missing.",
    ("(sigmoid + silu * (1 - sigmoid))", "(silu * (1 - sigmoid))"),
)
slip(
    ("This is the derivative of the sigmoid. SiLU is g·σ(g), and the product rule gives two terms."),
    ("(sigmoid + silu * (1 - sigmoid))", "(sigmoid * (1 - sigmoid))"),
)
slip("In the second term of SiLU's derivative, the factor 1 − σ(g) is missing.", ("silu * (1 - sigmoid))", "silu)"))
slip(
    "In the second term of SiLU's derivative, the factor g is missing.",
    ("silu * (1 - sigmoid))", "sigmoid * (1 - sigmoid))"),
)
slip(
    "In the second term of SiLU's derivative, the factor σ(g) is missing.",
    ("silu * (1 - sigmoid))", "gate * (1 - sigmoid))"),
)
slip("The two terms of SiLU's derivative were subtracted, not added.", ("sigmoid + silu *", "sigmoid - silu *"))
slip(
    "The gate was treated as if there were no SiLU: its derivative is missing.",
    ("d_product * up * (sigmoid + silu * (1 - sigmoid))", "d_product * up"),
)
slip("The gradient of the gate needs the other factor of the product, up.", ("d_product * up * (", "d_product * ("))
slip("SiLU was used where its derivative belongs.", ("(sigmoid + silu * (1 - sigmoid))", "silu"))
slip(
    "The derivative of SiLU is taken at the gate. Here it is taken at SiLU of the gate.",
    ("(sigmoid + silu * (1 - sigmoid))", "(silu.sigmoid() * (1 + silu * (1 - silu.sigmoid())))"),
)
slip(
    ("The gradient of up needs the other factor of the product. That is SiLU of the gate, not the gate."),
    ("d_up = d_product * silu", "d_up = d_product * gate"),
)
slip(
    ("The gradient of up needs the other factor of the product, SiLU of the gate. It is σ(gate) here."),
    ("d_up = d_product * silu", "d_up = d_product * sigmoid"),
)
slip(
    "The gradient of up is that of the product here: the other factor is missing.",
    ("d_up = d_product * silu", "d_up = d_product"),
)
slip(
    "The gradient of up contains up itself. It needs the other factor.",
    ("d_up = d_product * silu", "d_up = d_product * up"),
)
slip("The gradients of gate and up were exchanged.", ("return d_gate, d_up", "return d_up, d_gate"))
slip("The input of the last product is SiLU times up. Here it is SiLU alone.", ("dy.T @ (silu * up)", "dy.T @ silu"))
slip("The input of the last product is SiLU times up. Here it is up alone.", ("dy.T @ (silu * up)", "dy.T @ up"))
slip(
    "The input of the last product is SiLU times up. Here it is the gate times up.",
    ("dy.T @ (silu * up)", "dy.T @ (gate * up)"),
)
slip(
    "The gradient of w_down has the shape of w_down, (h, f). It is transposed here.",
    ("dy.T @ (silu * up)", "(silu * up).T @ dy"),
)
slip(
    "The gradient of w_down was averaged over the rows. It is a sum over them.",
    ("dy.T @ (silu * up)", "dy.T @ (silu * up) / len(dy)"),
)
slip(
    ("The output is SiLU(gate) times up, times w_down transposed. SiLU was given up in place of the gate."),
    ("return (F.silu(gate) * up)", "return (F.silu(up) * gate)"),
)
slip("The output lacks SiLU.", ("return (F.silu(gate) * up)", "return (gate * up)"))
slip(
    "The output is a product with the sigmoid of the gate. SiLU is g·σ(g).",
    ("return (F.silu(gate) * up)", "return (gate.sigmoid() * up)"),
)
slip(
    ("SiLU of the gate is saved as well. It can be computed from the gate, without a matrix product."),
    (
        "ctx.save_for_backward(gate, up, w_down)",
        """silu = F.silu(gate)
        ctx.save_for_backward(gate, up, w_down, silu)""",
    ),
    ("gate, up, w_down = ctx", "gate, up, w_down, silu = ctx"),
    (
        """        silu = gate * sigmoid
""",
        "",
    ),
)
slip(
    ("The tensors of BrokenGated are still saved, all four. SiLU and the product can be computed again."),
    (
        "ctx.save_for_backward(gate, up, w_down)",
        """silu = F.silu(gate)
        ctx.save_for_backward(gate, up, w_down, silu, silu * up)""",
    ),
    ("gate, up, w_down = ctx.saved_tensors", "gate, up, w_down = ctx.saved_tensors[:3]"),
)

# ---- Task 4: causal_backward ----
slip = Slips(
    check.causal_backward,
    "causal_backward",
    """
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv
""",
)
slip("The mask is missing: a query must not see later keys.", (".masked_fill(later, -math.inf)", ""))
slip(
    ("The mask hides a query's own position. It sees the keys at positions 0 to i, and i is one of them."),
    ("[part] > ", "[part] >= "),
)
slip("The mask is the wrong way round: the earlier keys are hidden.", ("[part] > ", "[part] < "))
slip(
    ("The positions of the keys start at 0 in every tile. Add the position at which the tile begins."),
    ("torch.arange(s)[part] >", "torch.arange(len(torch.arange(s)[part])) >"),
)
slip("Hidden scores were set to 0 and not to −∞, so hidden keys have a weight.", ("-math.inf)", "0.0)"))
slip("δ is missing: it is subtracted from dP before the product with P.", (" - delta)", ")"))
slip("δ was added. It is subtracted from dP.", ("values.mT - delta", "values.mT + delta"))
slip(
    ("δ was computed in each tile from this tile's keys only. It is a sum over all keys: dO times the output."),
    (
        "        ds = p *",
        """        delta = (p * (d_out @ values.mT)).sum(-1, keepdim=True)
        ds = p *""",
    ),
)
slip("δ is one number per row, the sum over the width of the head. It was not summed.", (".sum(-1, keepdim=True)", ""))
slip(
    "δ was summed over the rows of the head. It is a sum over the width.",
    ("(d_out * out).sum(-1, keepdim=True)", "(d_out * out).sum(-2, keepdim=True).sum(-1, keepdim=True)"),
)
slip(
    "dO is missing in δ: it is dO times the output, summed over the width of the head.",
    ("(d_out * out).sum", "out.sum"),
)
slip(
    ("The probabilities of a tile were normalised within the tile. With the logsumexp they need no further sum."),
    ("p = (scores - lse).exp()", "p = scores.softmax(-1).nan_to_num()"),
)
slip(
    "The logsumexp was not subtracted, so the exponentials are not probabilities.",
    ("(scores - lse).exp()", "scores.exp()"),
)
slip("The scale is missing in the scores: they are divided by √d.", ("q @ keys.mT * scale", "q @ keys.mT"))
slip(
    ("The scale is missing in dq and dk: it is a factor of the scores, so the chain rule brings it back."),
    ("- delta) * scale", "- delta)"),
)
slip("The scale was used in dv as well. V is not scaled.", ("p.mT @ d_out", "p.mT @ d_out * scale"))
slip("Scores are divided by √d. They were divided by d.", ("** -0.5", "** -1.0"))
slip("dq is a sum over all tiles. Only the last one is left.", ("dq += ds @ keys", "dq = ds @ keys"))
slip(
    "The product with P is missing in dS: it is P times (dP − δ).",
    ("p * (d_out @ values.mT - delta)", "(d_out @ values.mT - delta) * (p > 0)"),
)
slip("The keys of the last, shorter tile are left out.", ("range(0, s, tile)", "range(0, s - s % tile, tile)"))
slip("dk and dv were exchanged.", ("return dq, dk, dv", "return dq, dv, dk"))
slip("dq and dk were exchanged.", ("return dq, dk, dv", "return dk, dq, dv"))
slip("dv needs the probabilities, and not dS.", ("p.mT @ d_out", "ds.mT @ d_out"))
slip("dv needs the gradient of the output, and not the output.", ("p.mT @ d_out", "p.mT @ out"))
slip("dk needs the queries. The keys were taken.", ("ds.mT @ q", "ds.mT @ k"))
slip(
    ("All keys were taken at once: a whole square was in memory. Work on `tile` keys at a time."),
    (
        "    delta =",
        """    tile = s
    delta =""",
    ),
)

# ---- Task 5: chunked_loss ----
slip = Slips(
    check.chunked_loss,
    "chunked_loss",
    """
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw
""",
)
slip("This is the sum of the losses of all tokens. The mean is asked for.", ("log_p[at].sum() / n", "log_p[at].sum()"))
slip(
    ("The means of the chunks were averaged. The last chunk has fewer rows, so its tokens counted too much."),
    ("log_p[at].sum() / n", "log_p[at].mean() / -(-n // rows)"),
)
slip("The means of the chunks were added up.", ("log_p[at].sum() / n", "log_p[at].mean()"))
slip("The sign of the loss is wrong: it is minus the logarithm of a probability.", ("loss -= ", "loss += "))
slip("This is the loss of the last chunk alone.", ("loss -= ", "loss = -"))
slip(
    "The mean is over n tokens. Here the sum was divided by the number of entries, too.",
    ("log_p[at].sum() / n", "log_p[at].sum() / n / len(w)"),
)
slip(
    "This is the logit of the right entry. The logsumexp of the row is missing.",
    ("loss -= log_p[at]", "loss -= (x[part] @ w.T)[at]"),
)
slip("The gradient was not divided by n: the loss is a mean.", ("log_p.exp() / n", "log_p.exp()"), ("-= 1 / n", "-= 1"))
slip(
    "The gradient was divided by the rows of a chunk. The loss is a mean over all n tokens.",
    ("log_p.exp() / n", "log_p.exp() / len(log_p)"),
    ("-= 1 / n", "-= 1 / len(log_p)"),
)
slip(
    ("Nothing was subtracted at the right entries: the gradient of the logits is softmax minus 1 there."),
    (
        """        d_logits[at] -= 1 / n
""",
        "",
    ),
)
slip(
    ("At the right entries, 1 was subtracted after the division by n. It has to be divided as well."),
    ("-= 1 / n", "-= 1"),
)
slip("The sign at the right entries is wrong: 1 is subtracted there.", ("d_logits[at] -= ", "d_logits[at] += "))
slip(
    "The gradient of the logits needs the probabilities. These are their logarithms.", ("log_p.exp() / n", "log_p / n")
)
slip("dw is a sum over all chunks. Only the last one is left.", ("dw += ", "dw = "))
slip(
    "dw was averaged over the chunks. It is their sum.",
    ("dw += d_logits.T @ x[part]", "dw += d_logits.T @ x[part] / -(-n // rows)"),
)
slip("dw is transposed: it has the shape of w.", ("return loss, dx, dw", "return loss, dx, dw.T"))
slip(
    "Each chunk has its own rows of x. dw was computed with the first rows every time.",
    ("d_logits.T @ x[part]", "d_logits.T @ x[: len(d_logits)]"),
)
slip(
    ("dx has a row for every token. These are the rows of the last chunk, added to those of all others."),
    ("dx[part] = d_logits @ w", "dx[: len(log_p)] += d_logits @ w"),
)
slip("The tokens of the last, shorter chunk are left out.", ("range(0, n, rows)", "range(0, n - n % rows, rows)"))
slip("Every chunk was given the right entries of the first tokens.", ("right[part]", "right[: len(log_p)]"))
slip(
    ("Without the maximum, the exponential of a large logit overflows. Use log_softmax or logsumexp."),
    (
        "torch.log_softmax(x[part] @ w.T, -1)",
        """x[part] @ w.T
        log_p = log_p - log_p.exp().sum(-1, keepdim=True).log()""",
    ),
)
slip(
    ("The probability of a right entry may underflow to 0, and its logarithm is −∞. Use log_softmax."),
    ("torch.log_softmax(x[part] @ w.T, -1)", "(x[part] @ w.T).softmax(-1).log()"),
)
slip(
    "All logits were in memory at once. Compute those of `rows` tokens at a time.",
    (
        "    for begin",
        """    rows = n
    for begin""",
    ),
)
slip("dx and dw were exchanged.", ("return loss, dx, dw", "return loss, dw, dx"))
