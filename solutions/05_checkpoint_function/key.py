"""What is known about wrong answers to assignment 5, and what to say to each."""

from functools import partial

import torch
from tasks import check
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def keep(ctx, fn, *args):
    ctx.fn = fn
    ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
    ctx.rest = {i: a for i, a in enumerate(args) if not isinstance(a, Tensor)}
    ctx.rng = torch.get_rng_state()
    return fn(*args)


def again(ctx, detach=True, requires=None):
    """The arguments and outputs of the second run."""
    args = list(ctx.saved_tensors)
    if detach:
        args = [t.detach().requires_grad_(t.requires_grad if requires is None else requires) for t in args]
    for i, value in ctx.rest.items():
        args.insert(i, value)
    with torch.enable_grad():
        ys = ctx.fn(*args)
    return args, [ys] if isinstance(ys, Tensor) else list(ys)


def grads(args):
    return None, *(a.grad if isinstance(a, Tensor) else None for a in args)


def function(name, backward, forward=keep):
    """A Function of that name: its node in the graph is called as the student's."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (torch.autograd.Function,), members)


class NoFunction:
    """Something with an `apply` that is no Function."""

    def __init__(self, apply):
        self.apply = apply


def asks_for_inputs(ctx, *dys):
    args, ys = again(ctx)
    wanted = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    found = iter(torch.autograd.grad(ys, wanted, dys))
    return None, *(next(found) if isinstance(a, Tensor) and a.requires_grad else None for a in args)


def right(ctx, *dys):
    args, ys = again(ctx)
    torch.autograd.backward(ys, dys)
    return grads(args)


def attached(ctx, *dys):
    args, ys = again(ctx, detach=False)
    for a in args:
        a.retain_grad()
    torch.autograd.backward(ys, dys)
    return grads(args)


def keeps_graph(ctx, fn, x):
    ctx.x = x.detach().requires_grad_()
    with torch.enable_grad():
        ctx.y = fn(ctx.x)
    return ctx.y.detach()


def uses_graph(ctx, dy):
    torch.autograd.backward(ctx.y, dy)
    return None, ctx.x.grad


def hangs_on_ctx(ctx, fn, *args):
    ctx.fn, ctx.args = fn, args
    ctx.rng = torch.get_rng_state()
    return fn(*args)


def from_ctx(ctx, dy):
    (x,) = ctx.args
    x, now = x.detach().requires_grad_(), torch.get_rng_state()
    torch.set_rng_state(ctx.rng)
    with torch.enable_grad():
        y = ctx.fn(x)
    torch.set_rng_state(now)
    torch.autograd.backward(y, dy)
    return None, x.grad


NO_CHECKPOINT = "Nothing is checkpointed: the segment runs as always, and autograd keeps all that it saves."
TORCHS = "That is PyTorch's checkpoint. Here the Function is to be yours: derive it from torch.autograd.Function."
ON_CTX = (
    "Tensors hang on ctx by hand, where nobody sees them: no check for changes in place, no hooks, no checkpoint "
    "around this one. ctx.save_for_backward is the place for tensors."
)


def torchs(reentrant, fn, *args):
    return checkpoint(fn, *args, use_reentrant=reentrant)


def told_to_all(task, name):
    """Mistakes that can be made in every Function."""
    task.mistake(NO_CHECKPOINT)(NoFunction(lambda fn, *args: fn(*args)))
    for reentrant in (True, False):
        task.mistake(TORCHS)(NoFunction(partial(torchs, reentrant)))
    task.mistake(ON_CTX)(function(name, from_ctx, hangs_on_ctx))
    task.mistake(
        "The segment ran once: its graph was kept for backward. Run it without a graph, and again in backward."
    )(function(name, uses_graph, keeps_graph))
    task.mistake(
        "The copy of the input is not detached: the inner backward goes on into what is outside the segment. "
        "Use x.detach().requires_grad_()."
    )(function(name, attached))


# ---- Task 1: weights ----

told_to_all(check.weights, "Weights")
check.weights.mistake(
    "The weights inside the segment have no gradient: torch.autograd.grad returns what it is asked for, and it was "
    "asked for x. torch.autograd.backward reaches every leaf."
)(function("Weights", asks_for_inputs))


@check.weights.mistake("x has no gradient: backward returns one entry for each argument, None for fn and x.grad for x.")
@lambda backward: function("Weights", backward)
def returns_nothing(ctx, dy):
    right(ctx, dy)
    return None, None


@check.weights.mistake("dy was forgotten: the gradient that arrives at the output must go into the inner backward.")
@lambda backward: function("Weights", backward)
def forgets_dy(ctx, dy):
    args, (y,) = again(ctx)
    torch.autograd.backward(y, torch.ones_like(dy))
    return grads(args)


@check.weights.mistake("dx is what came in: return x.grad, the gradient at the segment's input, not dy.")
@lambda backward: function("Weights", backward)
def passes_dy_on(ctx, dy):
    right(ctx, dy)
    return None, dy


def without_graph(ctx, *dys):
    args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
    torch.autograd.backward(ctx.fn(*args), dys)


check.weights.mistake(
    "The second run recorded no graph, so there is nothing to go back through: backward runs without gradients, "
    "unless torch.enable_grad() says otherwise."
)(function("Weights", without_graph))

# ---- Task 2: masks ----

told = check.masks.mistake
told_to_all(check.masks, "Masks")
told(
    "The second run drew other random numbers than the first, so the gradient goes through another mask. Remember "
    "torch.get_rng_state() before the first run."
)(function("Masks", right))


@told(
    "The gradients are right, but the generator was left where the second run ended: what is drawn next was drawn "
    "before. Put back the state that was there."
)
@lambda backward: function("Masks", backward)
def does_not_put_back(ctx, dy):
    torch.set_rng_state(ctx.rng)
    return right(ctx, dy)


@told("After backward the generator stands where forward began: put back the state that backward found.")
@lambda backward: function("Masks", backward)
def puts_back_the_old_one(ctx, dy):
    torch.set_rng_state(ctx.rng)
    found = right(ctx, dy)
    torch.set_rng_state(ctx.rng)
    return found


def after_the_run(ctx, fn, x):
    y = keep(ctx, fn, x)
    ctx.rng = torch.get_rng_state()
    return y


def restores(ctx, dy):
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.rng)
    found = right(ctx, dy)
    torch.set_rng_state(now)
    return found


told("The state was remembered after the first run. It must be the one from which the first run drew: before.")(
    function("Masks", restores, after_the_run)
)


def seeding(seed):
    def forward(ctx, fn, x):
        torch.manual_seed(seed)
        return keep(ctx, fn, x)

    def backward(ctx, dy):
        torch.manual_seed(seed)
        return right(ctx, dy)

    return function("Masks", backward, forward)


for seed in (0, 1, 42, 1234):
    told(
        "Seeding makes both runs equal, but also every step: the same mask for every batch. Remember the state that "
        "is there instead."
    )(seeding(seed))


@told("The random numbers are right, but the weights have no gradient: torch.autograd.backward, not grad (task 1).")
@lambda backward: function("Masks", backward)
def masks_without_weights(ctx, dy):
    now = torch.get_rng_state()
    torch.set_rng_state(ctx.rng)
    found = asks_for_inputs(ctx, dy)
    torch.set_rng_state(now)
    return found


# ---- Task 3: arguments ----

told = check.arguments.mistake
told(NO_CHECKPOINT)(NoFunction(lambda fn, *args: fn(*args)))
for reentrant in (True, False):
    told(TORCHS)(NoFunction(partial(torchs, reentrant)))


def on_ctx(ctx, *dys):
    args = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in ctx.args]
    with torch.enable_grad():
        ys = ctx.fn(*args)
    torch.autograd.backward([ys] if isinstance(ys, Tensor) else ys, dys)
    return grads(args)


told(ON_CTX)(function("Arguments", on_ctx, hangs_on_ctx))


@told("Only the first output's gradient was used: backward gets one for each output, and all of them count.")
@lambda backward: function("Arguments", backward)
def first_output(ctx, *dys):
    args, ys = again(ctx)
    torch.autograd.backward(ys[0], dys[0])
    return grads(args)


@told("Only the first tensor has its gradient: return one for each argument, in their order.")
@lambda backward: function("Arguments", backward)
def first_input(ctx, *dys):
    _, *found = right(ctx, *dys)
    first = next(i for i, g in enumerate(found) if g is not None)
    return None, *(g if i == first else None for i, g in enumerate(found))


@told("The arguments come back in another order than they had: remember where each was, and put it there.")
@lambda backward: function("Arguments", backward)
def tensors_first(ctx, *dys):
    args = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
    with torch.enable_grad():
        ctx.fn(*args, *ctx.rest.values())


@told("Only what required a gradient may require one again: a mask of booleans cannot.")
@lambda backward: function("Arguments", backward)
def all_require(ctx, *dys):
    args, ys = again(ctx, requires=True)
    torch.autograd.backward(ys, dys)
    return grads(args)


@told("Backward returns one entry for each argument of apply, None for those that are no tensors.")
@lambda backward: function("Arguments", backward)
def too_few(ctx, *dys):
    return [g for g in right(ctx, *dys) if g is not None]


@told("Backward returns one entry for each argument of apply, None for those that are no tensors.")
@lambda backward: function("Arguments", backward)
def tensors_only(ctx, *dys):
    args, ys = again(ctx)
    torch.autograd.backward(ys, dys)
    return None, *(a.grad for a in args if isinstance(a, Tensor))


def takes_one(ctx, fn, x):
    ctx.fn = fn
    return fn(x)


takes_one.__qualname__ = "Arguments.forward"  # as Python's own message calls it
told("forward takes one argument besides fn: it should take any number of them, *args.")(
    function("Arguments", right, takes_one)
)

# ---- Task 4: nested ----


def flat(checkpoint, blocks, x):
    for block in blocks:
        x = checkpoint(block, x)
    return x


def run(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def two_halves(checkpoint, blocks, x):
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: run(half, x), x)
    return x


def down_to_a_block(checkpoint, blocks, x):
    """Like the reference, but a single block is checkpointed once more."""
    if len(blocks) == 1:
        return checkpoint(blocks[0], x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: down_to_a_block(checkpoint, half, x), x)
    return x


def one_around(checkpoint, blocks, x):
    return checkpoint(lambda x: two_levels(checkpoint, blocks, x), x)


def two_levels(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: two_levels(checkpoint, half, x), x)
    return x


def first_half_only(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    middle = len(blocks) // 2
    x = checkpoint(lambda x: first_half_only(checkpoint, blocks[:middle], x), x)
    return first_half_only(checkpoint, blocks[middle:], x)


def none(n):
    return None


wrong_chains = {
    "Nothing is checkpointed: the blocks run once, and autograd keeps everything.": lambda c, blocks, x: run(blocks, x),
    "One checkpoint for each block, none inside another: split into halves, and split each half again.": flat,
    "Two checkpoints, and nothing inside them: inside each half, do the same again.": two_halves,
    "A single block is called, not checkpointed: here each runs once more than it has to.": down_to_a_block,
    "There is one checkpoint around everything besides: begin with the two halves.": one_around,
    "Only first halves are checkpointed: the second halves keep what they save.": first_half_only,
}
for message, answer in wrong_chains.items():
    check.nested.mistake(message, answer, none)

wrong_numbers = {
    "The forward pass is a run, too: inside d checkpoints a block runs d + 1 times.": lambda n: n.bit_length() - 1,
    "Two runs are for one checkpoint. A block that is inside several runs once more for each of them.": lambda n: 2,
    "Each level adds one run, it does not double them: the outer second run is where the inner one begins anew.": (
        lambda n: n
    ),
    "That is the number of runs of all blocks together: how often does each one run?": lambda n: n * n.bit_length(),
}
for message, predict in wrong_numbers.items():
    check.nested.mistake(message, None, predict)

# ---- Task 5: pitfalls ----

told = check.pitfalls.mistake
NUMBERS = {"a": 1, "b": 2, "c": 4, "d": 3}


def again_without(**options):
    return lambda model, x: checkpoint(model, x, **{"use_reentrant": False} | options)


def norm_outside(model, x):
    x = checkpoint(model.first, x, use_reentrant=False)
    return checkpoint(model.last, model.norm(x), use_reentrant=False)


def norm_plain(model, x):
    return model.last(model.norm(model.first(x)))


def norm_inside(model, x):
    return checkpoint(lambda x: norm_plain(model, x), x, use_reentrant=False)


def norm_in_eval(model, x):
    model.norm.eval()
    return norm_inside(model, x)


def counts_inside(model, x):
    def segment(x):
        model.steps += 1
        return model.scaled(x, model.steps)

    return checkpoint(segment, x, use_reentrant=False)


def counts_before(model, x):
    model.steps += 1
    return checkpoint(model.scaled, x, model.steps, use_reentrant=False)


def counts_plain(model, x):
    model.steps += 1
    return model.scaled(x, model.steps)


def counts_after(model, x):
    y = checkpoint(model.scaled, x, model.steps, use_reentrant=False)
    model.steps += 1
    return y


def never_counts(model, x):
    return checkpoint(model.scaled, x, model.steps + 1, use_reentrant=False)


FIXED = {"a": again_without(), "b": again_without(), "c": norm_outside, "d": counts_before}


def about(message, **wrong):
    """Repairs that are wrong; nothing is said about the others."""
    told(message, NUMBERS, *(wrong.get(name) for name in NUMBERS))


NOT_ANY_MORE = "The repaired snippet no longer checkpoints: what was run twice is to be run twice."
about(NOT_ANY_MORE, a=lambda model, x: model(x), b=lambda model, x: model(x), c=norm_plain, d=counts_plain)
about(
    "Nothing is trained: reentrant, and x requires no gradient, so there is no node.",
    a=lambda model, x: checkpoint(model, x, use_reentrant=True),
)
for reentrant in (True, False):
    about(
        "The second run draws another mask: its random numbers are not those of the first.",
        b=again_without(preserve_rng_state=False, use_reentrant=reentrant),
    )
about(
    "Dropout is switched off, not repaired: the model is to train as without a checkpoint.",
    b=lambda model, x: checkpoint(model.eval(), x, use_reentrant=False),
)
about("The norm still runs twice, and counts the batch twice: keep it out of the checkpoint.", c=norm_inside)
about("The norm is switched to evaluation: it is to learn its statistics, once for each batch.", c=norm_in_eval)
about(
    "The counter still moves in the second run: count before the checkpoint, and pass the number in.", d=counts_inside
)
about("The step is counted after it was used: the snippet counts first.", d=counts_after)
about("The step is not counted any more: model.steps is to be one larger after each call.", d=never_counts)

for name, others in {"a": (6, 7, 11), "b": (3, 5), "c": (3, 5), "d": (2, 4, 5)}.items():
    for number in others:
        repairs = [FIXED[name] if name == other else None for other in NUMBERS]
        told(
            f"The repair is right, but {number} is another pitfall: look at the table again.", {name: number}, *repairs
        )
