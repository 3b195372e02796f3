"""What is known about wrong answers to assignment 5, and what to say to each."""

from functools import partial

import torch
from tasks import check
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def function(forward, backward):
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Wrong", (torch.autograd.Function,), members)


class NoFunction:
    """Something with an `apply` that is no Function."""

    def __init__(self, apply):
        self.apply = apply


NO_CHECKPOINT = "Nothing is checkpointed: the segment runs as always, and autograd keeps all that it saves."
TORCHS = "That is PyTorch's checkpoint. Here the Function is to be yours: derive it from torch.autograd.Function."
ON_CTX = (
    "Tensors were stored on ctx as attributes, where nobody sees them: no check for changes in place, no hooks, no "
    "checkpoint around this one. ctx.save_for_backward is the place for tensors."
)
RAN_ONCE = "The segment ran once: its graph was kept for backward. Run it without a graph, and again in backward."
WITHOUT_GRAPH = (
    "What the inner gradients start from has no graph: backward runs without gradients, unless torch.enable_grad() "
    "says otherwise, for the second run and for all that is computed from it."
)
NO_GRAPH = (
    "What the inner backward starts from has no graph: torch.enable_grad() must be around the second run and around "
    "all that is computed from it, and the copy must require a gradient."
)
RETURNS_NOTHING = "forward returns nothing: it must return what fn returns."
DY_FORGOTTEN = "dy was forgotten: the gradient that arrives at the output must go into the inner one."
OUTPUT_KEPT = "More is kept than was given to apply, the output: the arguments are enough to compute it again."
ATTACHED = (
    "The copy is not detached: the inner backward adds to the .grad of what was given to apply, and what is returned "
    "is added once more."
)
ONCE = "The segment runs more than once in backward: run it once, and ask for all gradients together."
TWO_FORWARDS = "The segment runs more than once in forward: run it once, and return what this run gives."
ON_CLASS = (
    "What backward needs was stored on the class, or elsewhere outside ctx, where the next call of apply overwrites "
    "it. Each call has a ctx of its own: store it there."
)
for task in (check.weights, check.masks, check.arguments, check.nested, check.pitfalls):
    task.tolerate(rtol=1e-4, atol=1e-5)


def told_to_all(task, call):
    """Mistakes that can be made in every Function. call(fn, *args): how args are given to fn."""
    task.mistake(NO_CHECKPOINT)(NoFunction(call))
    task.mistake(RETURNS_NOTHING)(function(lambda ctx, *args: None, lambda ctx, *dys: None))
    task.mistake("There is no apply: the answer is a class that derives from torch.autograd.Function.")(call)
    for reentrant in (True, False):
        task.mistake(TORCHS)(
            NoFunction(lambda fn, *args, how=reentrant: checkpoint(partial(call, fn), *args, use_reentrant=how))
        )


def told_of_both(task, call, forward, backward):
    """Mistakes that can be made in every Function, made in a right one."""

    def runs_twice(ctx, fn, *args):
        call(fn, *args)
        return forward(ctx, fn, *args)

    def remembers(ctx, fn, *args):
        y = forward(ctx, fn, *args)
        of_the_class.update(vars(ctx))
        return y

    def recalls(ctx, *dys):
        vars(ctx).update(of_the_class)
        return backward(ctx, *dys)

    of_the_class = {}
    task.mistake(TWO_FORWARDS)(function(runs_twice, backward))
    task.mistake(ON_CLASS)(function(remembers, recalls))


# ---- Task 1: weights ----

told = check.weights.mistake
told_to_all(check.weights, lambda fn, x, *weights: fn(x))


def keeps_x(ctx, fn, x, *weights):
    ctx.fn, ctx.count = fn, len(weights)
    ctx.save_for_backward(x, *weights)
    return fn(x)


def again(ctx):
    """The copy of x, the weights, and the output of the second run."""
    x, *weights = ctx.saved_tensors
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return x, weights, ctx.fn(x)


def returns(ctx, dy):
    x, weights, y = again(ctx)
    return None, *torch.autograd.grad(y, (x, *weights), dy)


told_of_both(check.weights, lambda fn, x, *weights: fn(x), keeps_x, returns)


def weights_mistake(message, forward=keeps_x):
    return lambda backward: told(message)(function(forward, backward))


def hangs_on_ctx(ctx, fn, x, *weights):
    ctx.fn, ctx.x, ctx.weights = fn, x, weights
    return fn(x)


@weights_mistake(ON_CTX, hangs_on_ctx)
def from_ctx(ctx, dy):
    x = ctx.x.detach().requires_grad_()
    with torch.enable_grad():
        y = ctx.fn(x)
    return None, *torch.autograd.grad(y, (x, *ctx.weights), dy)


def keeps_graph(ctx, fn, x, *weights):
    ctx.x, ctx.weights = x.detach().requires_grad_(), weights
    with torch.enable_grad():
        ctx.y = fn(ctx.x)
    return ctx.y.detach()


@weights_mistake(RAN_ONCE, keeps_graph)
def uses_graph(ctx, dy):
    return None, *torch.autograd.grad(ctx.y, (ctx.x, *ctx.weights), dy)


@weights_mistake(
    "The weights get no gradient: torch.autograd.grad returns what it is asked for. Ask for x's copy and for the "
    "weights themselves, which fn uses (copies of them it does not), and return what comes."
)
def asks_for_x(ctx, dy):
    x, weights, y = again(ctx)
    return None, torch.autograd.grad(y, x, dy)[0], *[None] * len(weights)


@weights_mistake(
    "The inner backward adds to .grad, and nothing is returned for the weights: torch.autograd.grad outside then gets "
    "none. Ask with torch.autograd.grad inside, and return the gradients."
)
def adds_only(ctx, dy):
    x, weights, y = again(ctx)
    torch.autograd.backward(y, dy)
    return None, x.grad, *[None] * len(weights)


@weights_mistake(
    "The inner backward adds to .grad, and what is returned is added once more. Ask with torch.autograd.grad, which "
    "adds to nothing."
)
def adds_and_returns(ctx, dy):
    x, weights, y = again(ctx)
    torch.autograd.backward(y, dy)
    return None, x.grad, *(w.grad for w in weights)


@weights_mistake(
    "x requires no gradient here: it is data. torch.autograd.grad can be asked for a copy that does, "
    "x.detach().requires_grad_()."
)
def not_a_copy(ctx, dy):
    x, *weights = ctx.saved_tensors
    with torch.enable_grad():
        y = ctx.fn(x)
    return None, *torch.autograd.grad(y, (x, *weights), dy)


@weights_mistake(
    "The copy of x must require a gradient: detach() alone cuts it off, and requires_grad_() comes after it."
)
def cut_off(ctx, dy):
    x, *weights = ctx.saved_tensors
    with torch.enable_grad():
        y = ctx.fn(x.detach())
    return None, *torch.autograd.grad(y, (x.detach(), *weights), dy)


@weights_mistake(
    "x itself was made to require a gradient, and whoever gave it finds it changed: work on a copy, "
    "x.detach().requires_grad_()."
)
def changes_x(ctx, dy):
    x, *weights = ctx.saved_tensors
    x.requires_grad_()
    with torch.enable_grad():
        y = ctx.fn(x)
    return None, *torch.autograd.grad(y, (x, *weights), dy)


@weights_mistake(
    "torch.autograd.grad is asked for tensors that the second run did not use: fn uses the weights themselves, not "
    "copies of them."
)
def copies_of_weights(ctx, dy):
    x, weights, y = again(ctx)
    return None, *torch.autograd.grad(y, (x, *(w.detach().requires_grad_() for w in weights)), dy)


@weights_mistake(
    "The gradients go to the weights that were given to apply, in their order: fn.parameters() may have another, and a "
    "function has none."
)
def parameters_of_fn(ctx, dy):
    x, _, y = again(ctx)
    return None, *torch.autograd.grad(y, (x, *ctx.fn.parameters()), dy)


@weights_mistake(ONCE)
def twice(ctx, dy):
    again(ctx)
    return returns(ctx, dy)


@weights_mistake(ONCE)
def once_more_for_each(ctx, dy):
    again(ctx)
    return once_for_each(ctx, dy)


def once_for_each(ctx, dy):
    found = []
    for i in range(1 + ctx.count):
        x, weights, y = again(ctx)
        found += torch.autograd.grad(y, (x, *weights)[i], dy)
    return None, *found


weights_mistake(ONCE)(once_for_each)


def keeps_y(ctx, fn, x, *weights):
    ctx.fn, y = fn, fn(x)
    ctx.save_for_backward(x, *weights, y)
    return y


@weights_mistake(OUTPUT_KEPT, keeps_y)
def y_unused(ctx, dy):
    x, *weights, _ = ctx.saved_tensors
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = ctx.fn(x)
    return None, *torch.autograd.grad(y, (x, *weights), dy)


@weights_mistake("x has no gradient: backward returns one entry for each argument, None for fn alone.")
def nothing_for_x(ctx, dy):
    found = returns(ctx, dy)
    return None, None, *found[2:]


@weights_mistake(DY_FORGOTTEN)
def forgets_dy(ctx, dy):
    return returns(ctx, torch.ones_like(dy))


@weights_mistake(DY_FORGOTTEN)
def only_for_a_number(ctx, dy):
    return returns(ctx, None)


@weights_mistake("dx is what came in: return the gradient at the segment's input, not dy.")
def passes_dy_on(ctx, dy):
    return None, dy, *returns(ctx, dy)[2:]


ENTRIES = (
    "backward returns one entry for each argument of apply, in their order: None for fn, then x's gradient, then one "
    "for each weight."
)


@weights_mistake(ENTRIES)
def forgets_fn(ctx, dy):
    return returns(ctx, dy)[1:]


@weights_mistake(ENTRIES)
def x_at_the_end(ctx, dy):
    _, dx, *others = returns(ctx, dy)
    return None, *others, dx


@weights_mistake(WITHOUT_GRAPH)
def without_graph(ctx, dy):
    x, *weights = ctx.saved_tensors
    return None, *torch.autograd.grad(ctx.fn(x.detach().requires_grad_()), (x, *weights), dy)


def takes_x(ctx, fn, x):
    return fn(x)


takes_x.__qualname__ = "Wrong.forward"  # as Python's own message calls it
told("forward takes fn and x alone: it is given the weights as well, `*weights`.")(function(takes_x, returns))

# ---- Task 2: masks ----

told_to_all(check.masks, lambda fn, x, generator: fn(x, generator))


def keeps_state(ctx, fn, x, generator):
    ctx.fn, ctx.generator, ctx.state = fn, generator, generator.get_state()
    ctx.save_for_backward(x)
    return fn(x, generator)


def drawn_again(ctx, dy, x=None):
    x = (ctx.saved_tensors[0] if x is None else x).detach().requires_grad_()
    with torch.enable_grad():
        y = ctx.fn(x, ctx.generator)
    torch.autograd.backward(y, dy)
    return None, x.grad, None


def restores(ctx, dy, x=None):
    now = ctx.generator.get_state()
    ctx.generator.set_state(ctx.state)
    found = drawn_again(ctx, dy, x)
    ctx.generator.set_state(now)
    return found


told_of_both(check.masks, lambda fn, x, generator: fn(x, generator), keeps_state, restores)


def masks_mistake(message, forward=keeps_state):
    return lambda backward: check.masks.mistake(message)(function(forward, backward))


def x_on_ctx(ctx, fn, x, generator):
    ctx.fn, ctx.x, ctx.generator, ctx.state = fn, x, generator, generator.get_state()
    return fn(x, generator)


@masks_mistake(ON_CTX, x_on_ctx)
def x_from_ctx(ctx, dy):
    return restores(ctx, dy, ctx.x)


def graph_kept(ctx, fn, x, generator):
    ctx.x = x.detach().requires_grad_()
    with torch.enable_grad():
        ctx.y = fn(ctx.x, generator)
    return ctx.y.detach()


def graph_kept_and_x(ctx, fn, x, generator):
    ctx.save_for_backward(x)
    return graph_kept(ctx, fn, x, generator)


def graph_used(ctx, dy):
    torch.autograd.backward(ctx.y, dy)
    return None, ctx.x.grad, None


for forward in (graph_kept, graph_kept_and_x):
    masks_mistake(RAN_ONCE, forward)(graph_used)


def put_back(backward):
    """The same, and afterwards the generator is put back."""

    def run(ctx, dy):
        now = ctx.generator.get_state()
        found = backward(ctx, dy)
        ctx.generator.set_state(now)
        return found

    return run


for other_numbers in (drawn_again, put_back(drawn_again)):
    masks_mistake(
        "The second run drew other random numbers than the first, so the gradient goes through another mask. They come "
        "from `generator`, not from PyTorch's own: remember generator.get_state() before the first run, and set it "
        "before the second."
    )(other_numbers)


def from_the_seed(ctx, dy):
    ctx.generator.manual_seed(ctx.generator.initial_seed())
    return drawn_again(ctx, dy)


for seeded in (from_the_seed, put_back(from_the_seed)):
    masks_mistake(
        "The seed leads to the beginning of all that the generator draws. The first run began later: others had drawn "
        "before. Remember the state."
    )(seeded)


@masks_mistake(
    "The gradients are right, but the generator was left where the second run ended: what is drawn next was drawn "
    "before. Put back the state that was there."
)
def does_not_put_back(ctx, dy):
    ctx.generator.set_state(ctx.state)
    return drawn_again(ctx, dy)


@masks_mistake("After backward the generator stands where forward began: put back the state that backward found.")
def puts_back_the_old_one(ctx, dy):
    found = restores(ctx, dy)
    ctx.generator.set_state(ctx.state)
    return found


def after_the_run(ctx, fn, x, generator):
    y = keeps_state(ctx, fn, x, generator)
    ctx.state = generator.get_state()
    return y


masks_mistake(
    "The state was remembered after the first run. It must be the one from which the first run drew: before.",
    after_the_run,
)(restores)


def seeding(seed):
    def forward(ctx, fn, x, generator):
        generator.manual_seed(seed)
        return keeps_state(ctx, fn, x, generator)

    def backward(ctx, dy):
        ctx.generator.manual_seed(seed)
        return drawn_again(ctx, dy)

    return forward, backward


for seed in (0, 1, 42, 1234):
    forward, backward = seeding(seed)
    for seeded in (backward, put_back(backward)):
        masks_mistake(
            "Seeding makes both runs equal, but also every step: the same mask for every batch. Remember the state "
            "that is there instead.",
            forward,
        )(seeded)


def saves_state(ctx, fn, x, generator):
    y = keeps_state(ctx, fn, x, generator)
    ctx.save_for_backward(x, ctx.state)
    return y


masks_mistake(
    "The generator's state was saved as a tensor of the graph, but it was not given to apply: store it on ctx.",
    saves_state,
)(restores)


def keeps_output(ctx, fn, x, generator):
    y = keeps_state(ctx, fn, x, generator)
    ctx.save_for_backward(x, y)
    return y


masks_mistake(OUTPUT_KEPT, keeps_output)(restores)


@masks_mistake("backward returns one entry for each argument of apply: None for fn, x's gradient, None for generator.")
def no_entry_for_generator(ctx, dy):
    return restores(ctx, dy)[:2]


@masks_mistake(DY_FORGOTTEN)
def ones_for_dy(ctx, dy):
    return restores(ctx, torch.ones_like(dy))


@masks_mistake(DY_FORGOTTEN)
def nothing_for_dy(ctx, dy):
    return restores(ctx, None)


@masks_mistake(NO_GRAPH)
def masks_without_graph(ctx, dy):
    torch.autograd.backward(ctx.fn(ctx.saved_tensors[0].detach(), ctx.generator), dy)


@masks_mistake(ATTACHED)
def masks_attached(ctx, dy):
    (x,) = ctx.saved_tensors
    now = ctx.generator.get_state()
    ctx.generator.set_state(ctx.state)
    with torch.enable_grad():
        torch.autograd.backward(ctx.fn(x, ctx.generator), dy)
    ctx.generator.set_state(now)
    return None, x.grad, None


@masks_mistake("The random numbers are right, but the weights have no gradient: torch.autograd.backward, not grad.")
def masks_without_weights(ctx, dy):
    now = ctx.generator.get_state()
    ctx.generator.set_state(ctx.state)
    x = ctx.saved_tensors[0].detach().requires_grad_()
    with torch.enable_grad():
        y = ctx.fn(x, ctx.generator)
    ctx.generator.set_state(now)
    return None, torch.autograd.grad(y, x, dy)[0], None


# ---- Task 3: arguments ----

told_to_all(check.arguments, lambda fn, names, *values: fn(**dict(zip(names, values, strict=True))))


check.arguments.mistake(TORCHS)(
    NoFunction(lambda fn, names, *values: checkpoint(fn, use_reentrant=False, **dict(zip(names, values, strict=True))))
)


def keeps_all(ctx, fn, names, *values):
    ctx.fn, ctx.names = fn, names
    ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor)))
    ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor)}
    return fn(**dict(zip(names, values, strict=True)))


def run_again(ctx, values):
    with torch.enable_grad():
        ys = ctx.fn(**dict(zip(ctx.names, values, strict=True)))
    return [ys] if isinstance(ys, Tensor) else list(ys)


def copies(ctx, requires=None):
    values = [t.detach().requires_grad_(t.requires_grad if requires is None else requires) for t in ctx.saved_tensors]
    for i, value in ctx.rest.items():
        values.insert(i, value)
    return values


def inner_backward(ys, dys):
    pairs = [(y, dy) for y, dy in zip(ys, dys, strict=True) if y.requires_grad]
    torch.autograd.backward(*zip(*pairs, strict=True))


def grads(values):
    return None, None, *(v.grad if isinstance(v, Tensor) else None for v in values)


def right(ctx, *dys):
    values = copies(ctx)
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


told_of_both(check.arguments, lambda fn, names, *values: fn(**dict(zip(names, values, strict=True))), keeps_all, right)


def arguments_mistake(message, forward=keeps_all):
    return lambda backward: check.arguments.mistake(message)(function(forward, backward))


@arguments_mistake(
    "None is a value like any other, and a tensor was put in its place: remember where the tensors were, not what is "
    "left in their places."
)
def none_for_tensors(ctx, *dys):
    tensors = iter(ctx.saved_tensors)
    values = [ctx.rest.get(i) for i in range(len(ctx.names))]
    values = [next(tensors) if value is None else value for value in values]
    with torch.enable_grad():
        ctx.fn(**dict(zip(ctx.names, values, strict=True)))


@arguments_mistake(
    "One copy was made for a tensor that is given under two names, and its gradient was returned for both, so it is "
    "added twice. Make a copy for each argument."
)
def one_copy_for_both(ctx, *dys):
    own, values = {}, list(ctx.saved_tensors)
    for tensor in values:
        own.setdefault(tensor.data_ptr(), tensor.detach().requires_grad_(tensor.requires_grad))
    values = [own[tensor.data_ptr()] for tensor in values]
    for i, value in ctx.rest.items():
        values.insert(i, value)
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


def all_on_ctx(ctx, fn, names, *values):
    ctx.fn, ctx.names, ctx.values = fn, names, values
    return fn(**dict(zip(names, values, strict=True)))


@arguments_mistake(ON_CTX, all_on_ctx)
def all_from_ctx(ctx, *dys):
    values = [v.detach().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in ctx.values]
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


def saving(saved):
    """Tensors that are not `saved` are stored on ctx, beside numbers and text."""

    def forward(ctx, fn, names, *values):
        ctx.fn, ctx.names = fn, names
        ctx.save_for_backward(*(v for v in values if isinstance(v, Tensor) and saved(v)))
        ctx.rest = {i: v for i, v in enumerate(values) if not isinstance(v, Tensor) or not saved(v)}
        return fn(**dict(zip(names, values, strict=True)))

    return forward


for saved in (lambda v: v.requires_grad, Tensor.is_floating_point):
    arguments_mistake(ON_CTX, saving(saved))(right)


@arguments_mistake(
    "Only the first output's gradient was used: backward gets one for each output, and all count. If an output is left "
    "out, its dy goes with it."
)
def first_output(ctx, *dys):
    values = copies(ctx)
    torch.autograd.backward(run_again(ctx, values)[0], dys[0])
    return grads(values)


@arguments_mistake(
    "An output that requires no gradient, an index, went into the inner backward: leave it out, with its dy."
)
def index_and_all(ctx, *dys):
    values = copies(ctx)
    torch.autograd.backward(run_again(ctx, values), dys)
    return grads(values)


@arguments_mistake(
    "An output that requires no gradient, a constant, went into the inner backward: that it is floating-point does not "
    "tell, y.requires_grad does."
)
def floating_outputs(ctx, *dys):
    values = copies(ctx)
    pairs = [(y, dy) for y, dy in zip(run_again(ctx, values), dys, strict=True) if y.is_floating_point()]
    torch.autograd.backward(*zip(*pairs, strict=True))
    return grads(values)


@arguments_mistake("Only the first tensor has its gradient: return one for each argument, in their order.")
def first_input(ctx, *dys):
    found = right(ctx, *dys)
    first = next(i for i, g in enumerate(found) if g is not None)
    return tuple(g if i == first else None for i, g in enumerate(found))


@arguments_mistake(
    "The values come back in another order than they had, under each other's names: remember where each was."
)
def tensors_first(ctx, *dys):
    values = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors] + list(ctx.rest.values())
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


@arguments_mistake("Only what required a gradient may require one again: a mask of booleans cannot.")
def all_require(ctx, *dys):
    values = copies(ctx, requires=True)
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


@arguments_mistake(
    "A single output is no tuple: what goes through its rows takes each for an output. Put it into one, (y,)."
)
def rows_for_outputs(ctx, *dys):
    values = copies(ctx)
    with torch.enable_grad():
        ys = ctx.fn(**dict(zip(ctx.names, values, strict=True)))
    pairs = [(y, dy) for y, dy in zip(ys, dys, strict=False) if y.requires_grad]
    torch.autograd.backward(*zip(*pairs, strict=True))
    return grads(values)


@arguments_mistake(
    "No tensor has its gradient. The second run needs torch.enable_grad() and copies that require a gradient where the "
    "value did, and what arrives there is returned."
)
def no_gradients(ctx, *dys):
    run_again(ctx, copies(ctx))
    return (None,) * (2 + len(ctx.names))


@arguments_mistake(NO_GRAPH)
def arguments_without_graph(ctx, *dys):
    ys = ctx.fn(**dict(zip(ctx.names, copies(ctx), strict=True)))
    torch.autograd.backward([ys] if isinstance(ys, Tensor) else list(ys), dys)


@arguments_mistake(DY_FORGOTTEN)
def arguments_without_dy(ctx, *dys):
    return right(ctx, *(torch.ones_like(dy) for dy in dys))


@arguments_mistake(ONCE)
def twice_in_backward(ctx, *dys):
    right(ctx, *dys)
    return right(ctx, *dys)


@arguments_mistake(ATTACHED)
def attached(ctx, *dys):
    values = list(ctx.saved_tensors)
    for i, value in ctx.rest.items():
        values.insert(i, value)
    inner_backward(run_again(ctx, values), dys)
    return grads(values)


COUNT = "Backward returns one entry for each argument of apply: None for fn, for names, and for what is no tensor."


@arguments_mistake(COUNT)
def too_few(ctx, *dys):
    return tuple(g for g in right(ctx, *dys) if g is not None)


@arguments_mistake(COUNT)
def tensors_only(ctx, *dys):
    values = copies(ctx)
    inner_backward(run_again(ctx, values), dys)
    return None, None, *(v.grad for v in values if isinstance(v, Tensor))


@arguments_mistake(COUNT)
def names_forgotten(ctx, *dys):
    return right(ctx, *dys)[1:]


def by_position(ctx, fn, *args):
    return fn(*args)


arguments_mistake(
    "fn was called with names and values in a row: each value goes to the parameter of its name, fn(**named).",
    by_position,
)(right)


def returns_a_list(ctx, fn, names, *values):
    y = keeps_all(ctx, fn, names, *values)
    return [y] if isinstance(y, Tensor) else list(y)


arguments_mistake(
    "forward returns a list, and autograd makes no node for one: return what fn returns, a tensor or a tuple.",
    returns_a_list,
)(right)
arguments_mistake(
    "fn takes keywords only: each value goes to the parameter of its name, fn(**named).",
    lambda ctx, fn, names, *values: fn(*values),
)(right)

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


def late(checkpoint, blocks, x):
    """Like the reference, but the lambda looks `half` up when it is called."""
    if len(blocks) == 1:
        return blocks[0](x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x: late(checkpoint, half, x), x)  # noqa: B023
    return x


def stops_at_two(checkpoint, blocks, x):
    if len(blocks) == 2:
        return run(blocks, x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: stops_at_two(checkpoint, half, x), x)
    return x


def quarters(checkpoint, blocks, x):
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: two_halves(checkpoint, half, x), x)
    return x


def pairs(checkpoint, blocks, x):
    for i in range(0, len(blocks), 2):
        x = checkpoint(lambda x, i=i: run(blocks[i : i + 2], x), x)
    return x


def halves_swapped(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    for half in (blocks[len(blocks) // 2 :], blocks[: len(blocks) // 2]):
        x = checkpoint(lambda x, half=half: halves_swapped(checkpoint, half, x), x)
    return x


def x_for_both(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        y = checkpoint(lambda x, half=half: x_for_both(checkpoint, half, x), x)
    return y


def one_for_both(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    first, second = blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]
    return checkpoint(lambda x: one_for_both(checkpoint, second, one_for_both(checkpoint, first, x)), x)


def returns_nothing(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]):
        x = checkpoint(lambda x, half=half: returns_nothing(checkpoint, half, x), x)


def has_run_already(checkpoint, blocks, x):
    return checkpoint(run(blocks, x), x)


def last_for_both(checkpoint, blocks, x):
    """Like `late`, but both lambdas are made before the first is called."""
    if len(blocks) == 1:
        return blocks[0](x)
    half = blocks[len(blocks) // 2 :]
    for _ in range(2):
        x = checkpoint(lambda x: last_for_both(checkpoint, half, x), x)
    return x


def another_one(**options):
    def nested(_, blocks, x):
        return two_levels(partial(checkpoint, **options), blocks, x)

    return nested


TOO_EARLY = "Splitting stops too early: go on until a half is a single block."
wrong_chains = {
    "Nothing is checkpointed: the blocks run once, and autograd keeps everything.": lambda c, blocks, x: run(blocks, x),
    "One checkpoint for each block, none inside another: split into halves, and split each half again.": flat,
    "Two checkpoints, and nothing inside them: inside each half, do the same again.": two_halves,
    TOO_EARLY: stops_at_two,
    "The halves are swapped: blocks[0] runs first.": halves_swapped,
    "Both halves are given x: the second half takes what the first one returned.": x_for_both,
    "One checkpoint holds both halves: each half has one of its own.": one_for_both,
    "nested returns nothing: is a `return` missing?": returns_nothing,
    "checkpoint takes a function and its input. What it was given here had run already: hand over a function, such as "
    "lambda x: ...": has_run_already,
    "Both checkpoints run the second half: a lambda looks `half` up when it is called, and by then the loop is over. "
    "Bind it: lambda x, half=half: ...": last_for_both,
    "A single block is called, not checkpointed: here each runs once more than it has to.": down_to_a_block,
    "There is one checkpoint around everything besides: begin with the two halves.": one_around,
    "Only first halves are checkpointed: the second halves keep what they save.": first_half_only,
    "In the second run the last half is run for both: a lambda looks `half` up when it is called, and by then the loop "
    "is over. Bind it: lambda x, half=half: ...": late,
}
for message, answer in wrong_chains.items():
    check.nested.mistake(message, answer, None)
check.nested.mistake(TOO_EARLY, quarters, None)
check.nested.mistake(
    "Pairs of blocks are checkpointed, and none inside another: begin with the two halves of the chain, and split each "
    "half again.",
    pairs,
    None,
)
for reentrant in (True, False):
    check.nested.mistake(
        "That is another checkpoint than the one that nested is given: take its first argument.",
        another_one(use_reentrant=reentrant),
        None,
    )

wrong_numbers = {
    "The forward pass is a run, too: inside d checkpoints a block runs d + 1 times.": lambda n: n.bit_length() - 1,
    "Two runs are for one checkpoint. A block that is inside several runs once more for each of them.": lambda n: 2,
    "Each level adds one run, it does not double them: the outer second run is where the inner one begins anew.": (
        lambda n: n
    ),
    "One too many: a single block has no checkpoint of its own, and there is none around everything. Count how often n "
    "can be halved.": lambda n: n.bit_length() + 1,
    "d checkpoints add d runs to the first one: d + 1, not 2 · d.": lambda n: 2 * (n.bit_length() - 1),
    "n/2 + 1 is right for n = 2 and n = 4 alone: d grows by one when n doubles.": lambda n: n // 2 + 1,
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


def first_only(model, x):
    return model.last(model.norm(checkpoint(model.first, x, use_reentrant=False)))


def last_only(model, x):
    return checkpoint(model.last, model.norm(model.first(x)), use_reentrant=False)


def part_only(model, x):
    return model[-1](checkpoint(model[:-1], x, use_reentrant=False))


def norm_plain(model, x):
    return model.last(model.norm(model.first(x)))


def norm_inside(model, x):
    return checkpoint(lambda x: norm_plain(model, x), x, use_reentrant=False)


def norm_slower(model, x):
    model.norm.momentum = 1 - (1 - model.norm.momentum) ** 0.5
    return norm_inside(model, x)


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


def counts_and_returns_nothing(model, x):
    model.steps += 1


def seeded(seed):
    def fixed(model, x):
        def segment(x):
            torch.manual_seed(seed)
            return model(x)

        return checkpoint(segment, x, use_reentrant=False)

    return fixed


def reads_late(model, x):
    model.steps += 1
    return checkpoint(lambda x: model.scaled(x, model.steps), x, use_reentrant=False)


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
for seed in (0, 1, 42, 1234):
    about("Seeding makes both runs equal, but also every step: the same mask for every batch.", b=seeded(seed))
PART = "Only a part of the model is checkpointed: all of it was."
about(PART, a=part_only, b=part_only)
about("first is checkpointed, last is not: it needs a checkpoint of its own.", c=first_only)
about("last is checkpointed, first is not: it needs a checkpoint of its own.", c=last_only)
NOTHING = "The repaired snippet returns nothing: is a `return` missing?"
about(NOTHING, d=counts_and_returns_nothing, **dict.fromkeys("abc", lambda model, x: None))
for norm_twice in (norm_inside, norm_slower):
    about("The norm still runs twice, and counts the batch twice: keep it out of the checkpoint.", c=norm_twice)
about("The norm is switched to evaluation: it is to learn its statistics, once for each batch.", c=norm_in_eval)
about(
    "The counter still moves in the second run: count before the checkpoint, and pass the number in.", d=counts_inside
)
about(
    "The number is read when backward comes, and by then another call has counted on: pass it in, as it was.",
    d=reads_late,
)
about("The step is counted after it was used: the snippet counts first.", d=counts_after)
about("The step is not counted any more: model.steps is to be one larger after each call.", d=never_counts)

for name in NUMBERS:
    told(
        "The repair is right, but there is no number: found is a dict that holds one for each of a, b, c and d.",
        {},
        *(FIXED[name] if name == other else None for other in NUMBERS),
    )
for name, others in {"a": (6, 7, 11), "b": (3, 5, 6), "c": (3, 5, 6), "d": (2, 4, 5, 6)}.items():
    for number in others:
        repairs = [FIXED[name] if name == other else None for other in NUMBERS]
        told(
            "The repair is right. Number 6 holds for each model here, for it is one segment: asked is the other one."
            if number == 6
            else f"The repair is right, but {number} is another pitfall: look at the table again.",
            {name: number},
            *repairs,
        )
