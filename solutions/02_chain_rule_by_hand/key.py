"""What is known about wrong answers to assignment 2, and what to say to each."""

import itertools

import torch
from tasks import check

# ---- Task 1: chain_grads ----

check.chain_grads.tolerate(rtol=1e-4, atol=1e-12)
told = check.chain_grads.mistake


def values(fs, x):
    found = [x]
    for f in fs:
        found.append(f(found[-1]))
    return found


def products(slopes):
    """[s0, s1, s2] -> [s0 s1 s2, s1 s2, s2]"""
    grads = [slopes[-1]]
    for slope in slopes[-2::-1]:
        grads.append(grads[-1] * slope)
    return grads[::-1]


def slopes(dfs, inputs):
    return [df(a) for df, a in zip(dfs, inputs, strict=True)]


@told("The gradients are right, but the last comes first. The list goes in the order of fs: x's gradient is entry 0.")
def reversed_list(fs, dfs, x):
    return products(slopes(dfs, values(fs, x)[:-1]))[::-1]


@told("Every derivative was taken at its function's OUTPUT. f' belongs to the input: g₂ = g₃ · f₂'(a₁), equation 1.")
def at_the_output(fs, dfs, x):
    return products(slopes(dfs, values(fs, x)[1:]))


@told("Every derivative was taken at x. Only the first function's input is x; the second's is a₁ = f₁(x).")
def at_x(fs, dfs, x):
    values(fs, x)  # the calls are another matter
    return products([df(x) for df in dfs])


@told("These are the functions' own derivatives. Each must be multiplied by the gradient that arrives from behind.")
def not_multiplied(fs, dfs, x):
    return slopes(dfs, values(fs, x)[:-1])


@told(
    "Multiplied from the first function on: that is the derivative of aᵢ with respect to x. Backward goes the other "
    "way: the derivative of the last output with respect to aᵢ."
)
def from_the_front(fs, dfs, x):
    return products(slopes(dfs, values(fs, x)[:-1])[::-1])[::-1]


@told("Only the gradient with respect to x was returned. The ones on the way are wanted, too: a list of n.")
def only_the_first(fs, dfs, x):
    return products(slopes(dfs, values(fs, x)[:-1]))[0]


@told("Only the gradient with respect to x was returned. The ones on the way are wanted, too: a list of n.")
def a_list_of_the_first(fs, dfs, x):
    return [only_the_first(fs, dfs, x)]


@told(
    "These are the gradients with respect to the OUTPUT of each function: the last is 1. Multiply by the function's "
    "own derivative first, then put the gradient into the list."
)
def of_the_outputs(fs, dfs, x):
    return [*products(slopes(dfs, values(fs, x)[:-1]))[1:], torch.ones_like(x)]


@told(
    "Derivatives and inputs do not belong together: one of the two lists was reversed, the other was not. dfs[i] takes "
    "the input of fs[i]."
)
def half_reversed(fs, dfs, x):
    return products(slopes(dfs[::-1], values(fs, x)[:-1]))


@told("n + 1 gradients were returned. The last one, of the output itself, is 1: it is not asked for.")
def one_too_many(fs, dfs, x):
    return [*products(slopes(dfs, values(fs, x)[:-1])), torch.ones_like(x)]


@told("All entries are one and the same tensor: g *= … changes it in place. Make a new one each time: g = g * df(a).")
def one_tensor(fs, dfs, x):
    return [only_the_first(fs, dfs, x)] * len(fs)


@told("No function was called. The derivatives are taken at the functions' inputs, and these come from calling fs.")
def calls_none(fs, dfs, x):
    return None


@told(
    "A function was called more than once. Once is enough: keep the inputs in a list on the way forward. That is "
    "memoization."
)
def calls_again(fs, dfs, x):
    fs[0](x), fs[0](x)


# ---- Task 2: output_rules ----


def relu_mistake(message, wrong):
    check.output_rules.mistake(message, wrong, lambda dy, y: None)


def softmax_mistake(message, wrong):
    check.output_rules.mistake(message, lambda dy, y: None, wrong)


relu_mistake(
    "y >= 0 holds everywhere: ReLU's output is never negative. Where it is 0, the slope is 0.", lambda dy, y: dy
)
relu_mistake("The slope of ReLU is 1 where y > 0, not y.", lambda dy, y: dy * y)
relu_mistake(
    "That is the derivative alone, a mask. Multiply it by dy: a VJP maps dy to dx.", lambda dy, y: (y > 0).to(dy)
)
relu_mistake("The mask asks where dy is positive. It should ask where y is.", lambda dy, y: dy.clamp(min=0))
relu_mistake("The mask is the wrong way round: dy passes where y > 0.", lambda dy, y: dy * (y <= 0))
for mistake in (relu_mistake, softmax_mistake):
    mistake("dy was changed in place, and others may hold it. Return a new tensor.", lambda dy, y: dy.zero_())
softmax_mistake(
    "Row sums of dx should be 0: softmax does not change when a constant is added to its input. You have the "
    "diagonal of the Jacobian; the off-diagonal part is missing (section 2.3, equation 4).",
    lambda dy, y: dy * y,
)
softmax_mistake(
    "That is sigmoid's derivative. Softmax outputs depend on every input of their row.", lambda dy, y: y * (1 - y) * dy
)
softmax_mistake(
    "The diagonal was counted twice: the sum Σ dyᵢ yᵢ goes over all i, i = j included. With it, y (1 − y) dy becomes "
    "y dy: equation 4.",
    lambda dy, y: y * (1 - y) * dy - y * (dy * y).sum(-1, True),
)
softmax_mistake(
    "Right for one row, wrong for several: rows of a batch do not know about each other. Which dimension did you sum "
    "over?",
    lambda dy, y: y * (dy - (dy * y).sum()),
)
for dim in (0, 1):
    softmax_mistake(
        "The sum goes over the wrong dimension: softmax goes over the last one, dim=-1, however many are in front.",
        lambda dy, y, dim=dim: y * (dy - (dy * y).sum(dim, keepdim=True)),
    )
softmax_mistake(
    "The sum is Σ dy · y, not Σ dy: every dyᵢ counts as much as yᵢ.", lambda dy, y: y * (dy - dy.sum(-1, True))
)
softmax_mistake(
    "The mean was taken. Equation 4 has a sum: the weights y add up to 1 already.",
    lambda dy, y: y * (dy - (dy * y).mean(-1, True)),
)
softmax_mistake(
    "The factor y in front is missing: dx = y (dy − Σ dy y).", lambda dy, y: dy - (dy * y).sum(-1, keepdim=True)
)
softmax_mistake(
    "The sum needs its factor y, too: dx = y dy − y Σ dy y. Here y multiplies dy alone.",
    lambda dy, y: dy * y - (dy * y).sum(-1, keepdim=True),
)
softmax_mistake(
    "keepdim=True is missing: the sum lost its dimension, so the sums do not stand beside the rows they belong to.",
    lambda dy, y: y * (dy - (dy * y).sum(-1)),
)
softmax_mistake("The off-diagonal part is right, but its sign: −yᵢyⱼ.", lambda dy, y: y * (dy + (dy * y).sum(-1, True)))
softmax_mistake(
    "dx was summed over its rows: it must have the shape of y.",
    lambda dy, y: (y * (dy - (dy * y).sum(-1, True))).sum(0),
)

# ---- Task 3: pool_and_norm ----


def pool_mistake(message, wrong):
    check.pool_and_norm.mistake(message, wrong, lambda dy, y, rstd, w, b: (None, None, None))


def norm_mistake(message, wrong):
    check.pool_and_norm.mistake(message, lambda dy, indices, shape: None, wrong)


def scattered(dy, indices, shape):
    return dy.new_zeros(shape).flatten(-2).scatter(-1, indices.flatten(-2), dy.flatten(-2)).reshape(shape)


def last_wins(dy, indices, shape):
    cells = dy.new_zeros(shape).flatten(-2)
    cells[torch.arange(shape[0])[:, None, None], torch.arange(shape[1])[:, None], indices.flatten(-2)] = dy.flatten(-2)
    return cells.reshape(shape)


def across_the_batch(dy, indices, shape):
    return dy.new_zeros(shape).flatten().scatter_add(0, indices.flatten(), dy.flatten()).reshape(shape)


def rows_of_h(dy, indices, shape):
    dx = dy.new_zeros(shape)
    for n, c in itertools.product(range(shape[0]), range(shape[1])):
        for g, i in zip(dy[n, c].flatten(), indices[n, c].flatten(), strict=True):
            dx[n, c, i // shape[2], i % shape[2]] += g
    return dx


def count_of_wins(dy, indices, shape):
    cells = dy.new_zeros(shape).flatten(-2)
    return cells.scatter_add(-1, indices.flatten(-2), torch.ones_like(dy).flatten(-2)).reshape(shape)


for overwriting in (scattered, last_wins):
    pool_mistake(
        "Where windows overlap, one cell may win several: its gradients add up, and here the last one overwrote the "
        "others. Fan-out again.",
        overwriting,
    )
pool_mistake(
    "The indices count the cells of one image, not of the whole batch: all images were sent into the first.",
    across_the_batch,
)
pool_mistake(
    "A row of the image has W cells: index i is in row i // W and column i % W, and W is shape[3].",
    rows_of_h,
)
pool_mistake("The winner's cell got 1. It must get dy.", count_of_wins)
pool_mistake("dx has the cells in one row: give it the shape of x.", lambda *a: across(*a))


def across(dy, indices, shape):
    return dy.new_zeros(shape).flatten(-2).scatter_add(-1, indices.flatten(-2), dy.flatten(-2))


def norm(
    dy, y, rstd, w, b, *, first=True, second=True, use_w=True, scale=True, shifted=True, rows=True, mean=torch.mean
):
    """Equation 5, with pieces left out."""
    x_hat = ((y - b) if shifted else y) / w if use_w else y - b
    g = dy * w if use_w else dy
    dx = g - first * mean(g, -1, keepdim=True) - second * x_hat * mean(g * x_hat, -1, keepdim=True)
    return (rstd * dx if scale else dx), *(t.flatten(0, -2).sum(0) if rows else t.sum(0) for t in (dy * x_hat, dy))


def only(dx=None, dw=None, db=None):
    return dx, dw, db


norm_mistake(
    "rstd is missing: x̂ = (x − mean) · rstd, so its derivative carries rstd in front (equation 5).",
    lambda *a: only(norm(*a, scale=False)[0]),
)
norm_mistake(
    "Only the direct part is there. Mean and standard deviation depend on x, too: two terms of equation 5 are missing.",
    lambda *a: only(norm(*a, first=False, second=False)[0]),
)
norm_mistake(
    "The term of the mean is missing: rows of dx sum to 0, since a constant added to a row of x changes nothing.",
    lambda *a: only(norm(*a, first=False)[0]),
)
norm_mistake(
    "The term along x̂ is missing: a row that is stretched gives the same x̂, so dx has no part along it.",
    lambda *a: only(norm(*a, second=False)[0]),
)
norm_mistake(
    "w is missing: y = x̂ w + b, so the gradient that reaches x̂ is g = dy · w, and x̂ = (y − b) / w.",
    lambda *a: only(norm(*a, use_w=False)[0]),
)
norm_mistake(
    "dw has a factor w too many: dw = Σ dy · x̂ over the rows, with dy itself, not g, and with x̂ = (y − b) / w.",
    lambda dy, y, rstd, w, b: (None, w * norm(dy, y, rstd, w, b)[1], norm(dy, y, rstd, w, b)[2]),
)
norm_mistake(
    "dw and db have a factor w too many: only dx is about g = dy · w. dw = Σ dy · x̂ and db = Σ dy, over the rows.",
    lambda dy, y, rstd, w, b: (None, *norm(dy * w, y, rstd, w, b)[1:]),
)
norm_mistake("x̂ = (y − b) / w: b was not taken off.", lambda *a: norm(*a, shifted=False))
norm_mistake(
    "y was taken for x̂. First x̂ = (y − b) / w; dx (equation 5) and dw, which is Σ dy · x̂ over the rows, need it.",
    lambda dy, y, rstd, w, b: norm(dy, y * w + b, rstd, w, b),
)
norm_mistake(
    "w is missing: the gradient that reaches x̂ is g = dy · w, and equation 5 is about g, not dy.",
    lambda dy, y, rstd, w, b: only(norm(dy / w, y, rstd, w, b)[0]),
)
norm_mistake(
    "w was multiplied in at the end. It belongs in front of the means: g = dy · w, and equation 5 is about g.",
    lambda dy, y, rstd, w, b: only(w * norm(dy / w, y, rstd, w, b)[0]),
)
norm_mistake(
    "Sums were taken over the row. Equation 5 has means: each element of x has a part of 1/D in the row's mean.",
    lambda *a: only(norm(*a, mean=torch.sum)[0]),
)
for mean in (torch.Tensor.mean, lambda t: t.mean(0, keepdim=True)):
    norm_mistake(
        "The means went over several rows. Each row is normalized by itself: take them over the last dimension, "
        "keepdim=True.",
        lambda *a, mean=mean: only(norm(*a, mean=lambda t, *dim, **keep: mean(t))[0]),
    )
norm_mistake(
    "keepdim=True is missing: a mean over the last dimension lost it, so the means do not stand beside their rows.",
    lambda *a: norm(*a, mean=lambda t, dim, keepdim: t.mean(dim)),
)
norm_mistake(
    "dx was divided by rstd. rstd is 1 over the standard deviation already: multiply by it.",
    lambda dy, y, rstd, w, b: only(norm(dy, y, rstd, w, b)[0] / rstd**2),
)
norm_mistake("Three tensors are asked for: dx, dw and db. One was returned.", lambda *a: norm(*a)[0])
norm_mistake("dw and db are swapped: dw comes first.", lambda *a: only(None, *norm(*a)[:0:-1]))
norm_mistake(
    "w and b met every row, in all dimensions in front: sum over all of them, not over the first alone.",
    lambda *a: (None, *norm(*a, rows=False)[1:]),
)
norm_mistake(
    "dw and db have the shape of w, (D,): w and b were broadcast over the rows, so their gradients sum over the rows.",
    lambda dy, y, rstd, w, b: (None, dy * (y - b) / w, dy),
)
norm_mistake(
    "The mean over the rows was taken. Every row used w, and the gradients of all uses add up.",
    lambda dy, y, rstd, w, b: (None, (dy * (y - b) / w).flatten(0, -2).mean(0), dy.flatten(0, -2).mean(0)),
)

# ---- Task 4: backward ----

told = check.backward.mistake


def right(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out]), strict=True):
                grads[name] = grads[name] + dx if name in grads else dx
    return grads


SKIP = (
    "An op on the tape has no gradient: its output was not used for this output, so nothing ever arrives. Skip it "
    "(section 2.5: the library does)."
)
ADD = (
    "A value that is used several times gets a gradient from every use: add them up. Here it is as large as one of "
    "them alone."
)


@told(SKIP)
def does_not_skip(tape, output, dy, get=dict.__getitem__):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(get(grads, out)), strict=True):
            grads[name] = grads[name] + dx if name in grads else dx
    return grads


told(SKIP)(lambda *a: does_not_skip(*a, get=dict.get))
told(SKIP)(lambda *a: does_not_skip(*a, get=lambda grads, out: grads.get(out, 0)))


@told(ADD)
def overwrites(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            grads.update(zip(inputs, vjp(grads[out]), strict=True))
    return grads


@told(ADD)
def keeps_the_first(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out]), strict=True):
                grads.setdefault(name, dx)
    return grads


@told(
    "Something was added in place. An addition hands ONE tensor to both its inputs, and to add to one changes the "
    "other, and dy as well. Make a new tensor: grads[name] + dx."
)
def in_place(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out]), strict=True):
                if name in grads:
                    grads[name] += dx
                else:
                    grads[name] = dx
    return grads


@told(
    "Something was added in place. A copy of dy does not suffice: an addition hands ONE tensor to both its inputs, and "
    "to add to one changes the other. Make a new tensor: grads[name] + dx."
)
def in_place_on_a_copy(tape, output, dy):
    return in_place(tape, output, dy.clone())


@told(
    "There is no gradient but the output's own: the op that made the output was not played. Was the tape cut in front "
    "of it, or left with `break` at a later op, where `continue` goes on?"
)
def only_the_output(tape, output, dy):
    return {output: dy}


@told(
    "The loop stopped at an op that no gradient reaches. Ops in front of it may have one: leave it out with `continue` "
    "and go on."
)
def stops(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out not in grads:
            break
        for name, dx in zip(inputs, vjp(grads[out]), strict=True):
            grads[name] = grads[name] + dx if name in grads else dx
    return grads


@told(
    "Gradients are missing in the dict. All are asked for, those of the output and of the values on the way, too: read "
    "them with `get`, since `pop` takes them out."
)
def pops(tape, output, dy):
    made = {out for out, _, _ in tape}
    return {name: g for name, g in right(tape, output, dy).items() if name not in made}


@told(
    "Not every gradient has the shape of dy: each has that of its own value. Begin without any, and put one into the "
    "dict when it arrives."
)
def zeros_first(tape, output, dy):
    grads = {name: torch.zeros_like(dy) for out, inputs, _ in tape for name in (out, *inputs)} | {output: dy}
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(grads[out]), strict=True):
            grads[name] = grads[name] + dx
    return grads


@told(
    "Only the op that made the output sent gradients. Was the tape read from first to last? A gradient comes from "
    "behind: read it in reverse, and play every op whose output has one."
)
def forwards(tape, output, dy):
    return right(tape[::-1], output, dy)


@told(
    "Backward began at the last op on the tape. It begins at `output`, which may stand earlier; later ops play no part."
)
def from_the_end(tape, output, dy):
    return does_not_skip(tape, tape[-1][0], dy)


@told("Ones were sent back instead of dy.")
def ones(tape, output, dy):
    return right(tape, output, torch.ones_like(dy))


# ---- Task 5: hessian ----


def gradient(loss, x, **options):
    x = x.detach().requires_grad_()
    return x, torch.autograd.grad(loss(x), x, **options)[0]


def product(loss, x, v):
    x, g = gradient(loss, x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


def hvp_mistake(message):
    def register(wrong):
        check.hessian.mistake(message, wrong, lambda activation, layers: None)
        return wrong

    return register


@hvp_mistake(
    "That is the gradient times v, element by element. Hv is the gradient of the NUMBER g · v: differentiate once more."
)
def gradient_times_v(loss, x, v):
    return gradient(loss, x)[1] * v


@hvp_mistake(
    "What was differentiated second has no graph. The first gradient gets one with create_graph=True, and nothing "
    "behind it may cut it off (detach, .data, no_grad)."
)
def without_graph(loss, x, v):
    x, g = gradient(loss, x)
    return torch.autograd.grad((g * v).sum(), x)[0]


@hvp_mistake(
    "loss(x) has no graph, because x requires no gradient: differentiate at a copy that does, "
    "x.detach().requires_grad_()."
)
def x_as_it_is(loss, x, v):
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


@hvp_mistake(
    "The gradient was asked for an x that was not the one given to loss: make one copy that requires a gradient, and "
    "use it in both places."
)
def another_x(loss, x, v):
    (g,) = torch.autograd.grad(loss(x.detach().requires_grad_()), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


@hvp_mistake("That is the gradient. Its derivative in the direction v is wanted.")
def gradient_alone(loss, x, v):
    return gradient(loss, x)[1]


@hvp_mistake(
    "The gradient was summed up and differentiated, then multiplied by v: that weights H's rows after adding its "
    "columns. Multiply by v BEFORE the second gradient."
)
def v_too_late(loss, x, v):
    x, g = gradient(loss, x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)[0] * v


@hvp_mistake("v was forgotten: this is H times a vector of ones.")
def without_v(loss, x, v):
    x, g = gradient(loss, x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)[0]


@hvp_mistake("That is one number, v · Hv. The vector Hv is wanted.")
def curvature(loss, x, v):
    return (product(loss, x, v) * v).sum()


@hvp_mistake("That is H's diagonal times v. What links one element of x with another is missing.")
def diagonal(loss, x, v):
    matrix = torch.autograd.functional.hessian(loss, x).reshape(x.numel(), x.numel())
    return matrix.diagonal().reshape(x.shape) * v


@hvp_mistake("That is the whole Hessian. Only its product with v is wanted, a tensor of v's shape.")
def matrix(loss, x, v):
    return torch.autograd.functional.hessian(loss, x)


hvp_mistake("Hv came back flat. It has the shape of v, whatever that is.")(lambda *a: product(*a).flatten())
hvp_mistake("torch.autograd.grad returns a tuple, also for one input: take its first entry, [0].")(
    lambda *a: [product(*a)]
)


@hvp_mistake(
    "That is g + Hv: a second .backward() adds to x.grad, which held g. torch.autograd.grad returns the gradient alone."
)
def added_to_grad(loss, x, v):
    return gradient(loss, x)[1] + product(loss, x, v)


def second_of(number):
    """A wrong way to g · v."""

    def answer(loss, x, v):
        x, g = gradient(loss, x, create_graph=True)
        return torch.autograd.grad(number(g, v), x)[0]

    return answer


for vectors_only in (second_of(torch.dot), second_of(torch.matmul), lambda *a: matrix(*a) @ a[2]):
    hvp_mistake(
        "x and v may have any shape, and this product takes vectors: g · v is (g * v).sum(), and a whole H must become "
        "a matrix, and v a vector, first."
    )(vectors_only)
hvp_mistake("What was differentiated second is a tensor of many numbers. Take the gradient of ONE: (g * v).sum().")(
    second_of(torch.mul)
)


def units_mistake(message, each, fixed=1):
    def predicted(activation, layers):
        return each[activation] * layers + fixed if activation in each else None

    check.hessian.mistake(message, lambda loss, x, v: None, predicted)


SINGLE = {"relu": 1, "gelu": 2, "tanh": 1, "sigmoid": 1}
DOUBLE = {name: 2 * n for name, n in SINGLE.items()}
RIGHT = {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}
units_mistake(
    "That is what the first backward needs. With create_graph=True the ops of backward keep something, too.", SINGLE
)
units_mistake("The input was forgotten: the first linear layer keeps it.", RIGHT, fixed=0)
for fixed in (0, 1, 2):
    units_mistake(
        "\"It doubles\" holds for ReLU and GELU. Tanh's and sigmoid's backward is a product with dy, so its derivative "
        "mentions dy: one more for each layer.",
        DOUBLE,
        fixed,
    )
units_mistake(
    "ReLU's backward is a mask, and its derivative needs the mask alone: dy is not kept for it.", RIGHT | {"relu": 3}
)
units_mistake(
    "GELU keeps its input, and the layer behind it keeps GELU's output: two for each layer, and backward adds its own.",
    RIGHT | {"gelu": 3},
)

# ---- all ----


def stub(*arguments):
    raise NotImplementedError


for task in (check.output_rules, check.pool_and_norm, check.backward, check.hessian):
    task.mistake("not answered: the stub still stands there", *[stub] * len(task.names))
