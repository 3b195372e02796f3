"""What is known about wrong answers to assignment 10, and what to say to each."""

import torch
import torch.distributed as dist
from tasks import PLANS, border, check
from torch.nn import functional as F

from ckptlib.models import formulas

# ---- Task 1: rank_state ----


def state(message, **wrong):
    """Wrong ways: functions of the layers and the number of ranks. Nothing is said about the others."""

    def rank_state(layers, ranks, way):
        return wrong[way](layers, ranks) if way in wrong else None

    check.rank_state.mistake(message)(rank_state)


state(
    "The gathered layer is missing: the layer that runs is whole, besides the shards.",
    fsdp=lambda v, n: 16 * sum(v) // n,
)
state(
    "One layer is gathered at a time, not all of them: that is why layers are sharded one by one.",
    fsdp=lambda v, n: 16 * sum(v) // n + 2 * sum(v),
)
state(
    "Only the weights of a layer are gathered, 2 bytes for each parameter. Gradients and optimizer state never are.",
    fsdp=lambda v, n: 16 * sum(v) // n + 16 * max(v),
)
state(
    "Gradients are not gathered in forward: 2 bytes for each parameter of the layer that runs.",
    fsdp=lambda v, n: 16 * sum(v) // n + 4 * max(v),
)
state(
    "The gathered layer comes besides the shards, this rank's shard of it included: nothing is subtracted.",
    fsdp=lambda v, n: 16 * sum(v) // n + 2 * max(v) - 2 * max(v) // n,
)
for wrong in (lambda v, n: 16 * sum(v) // n + 2 * v[-1], lambda v, n: 16 * sum(v) // n + 2 * v[0]):
    state("A layer was gathered, but not the largest one: layers are not all of one size.", fsdp=wrong)
state(
    "FSDP shards the weights and the gradients, too: all 16 bytes are divided.",
    fsdp=lambda v, n: 4 * sum(v) + 12 * sum(v) // n,
)
state(
    "FSDP shards the weights, too: all 16 bytes are divided.",
    fsdp=lambda v, n: 2 * sum(v) + 14 * sum(v) // n,
)
state("DDP shards nothing: every rank has all 16 bytes of every parameter.", ddp=lambda v, n: 16 * sum(v) // n)
state("The gradient has 2 bytes of its own for each parameter: 2 + 2 + 12.", ddp=lambda v, n: 14 * sum(v))
state(
    "Here only the optimizer's 12 bytes are sharded; the weights and gradients, 2 + 2, are whole.",
    optimizer=lambda v, n: 16 * sum(v) // n,
)
state(
    "Gradients are replicated here: 2 + 2 bytes are whole, 12 are sharded.",
    optimizer=lambda v, n: 2 * sum(v) + 14 * sum(v) // n,
)
state(
    "The gradients were forgotten: 2 + 2 bytes are whole, 12 are sharded.",
    optimizer=lambda v, n: 2 * sum(v) + 12 * sum(v) // n,
)
state(
    "The optimizer's bytes are sharded, not dropped: 12 bytes for each parameter of the rank's own share.",
    optimizer=lambda v, n: 4 * sum(v),
)

state(
    "The layer that runs is gathered from all ranks: 2 bytes for each of its parameters, not for this rank's share.",
    fsdp=lambda v, n: 16 * sum(v) // n + 2 * max(v) // n,
)
state(
    "FSDP shards the gradients and the optimizer's bytes, too: all 16 bytes are divided.",
    fsdp=lambda v, n: 14 * sum(v) + 2 * sum(v) // n + 2 * max(v),
)
state(
    "FSDP shards the weights and the gradients, too: all 16 bytes are divided.",
    fsdp=lambda v, n: 4 * sum(v) + 12 * sum(v) // n + 2 * max(v),
)
state(
    "FSDP shards the weights, too: all 16 bytes are divided.",
    fsdp=lambda v, n: 2 * sum(v) + 14 * sum(v) // n + 2 * max(v),
)
state(
    "Nothing is gathered here: the weights of every layer are whole already.",
    ddp=lambda v, n: 16 * sum(v) + 2 * max(v),
    optimizer=lambda v, n: 4 * sum(v) + 12 * sum(v) // n + 2 * max(v),
)
state(
    "Those are the bytes of all ranks together. One rank is asked for.",
    ddp=lambda v, n: 16 * sum(v) * n,
    optimizer=lambda v, n: 4 * sum(v) * n + 12 * sum(v),
    fsdp=lambda v, n: 16 * sum(v) + 2 * max(v) * n,
)
state("A rank gathers a layer once, not once for each rank.", fsdp=lambda v, n: 16 * sum(v) // n + 2 * max(v) * n)
state(
    "The weights and gradients are missing: 2 + 2 bytes are whole, 12 are sharded.",
    optimizer=lambda v, n: 12 * sum(v) // n,
)
state(
    "The other way round: the optimizer's 12 bytes are sharded, the weights and gradients, 2 + 2, are whole.",
    optimizer=lambda v, n: 12 * sum(v) + 4 * sum(v) // n,
)
state(
    "That is the state of the largest layer alone. A rank holds something of all layers.",
    ddp=lambda v, n: 16 * max(v),
    optimizer=lambda v, n: 4 * max(v) + 12 * max(v) // n,
    fsdp=lambda v, n: 16 * max(v) // n + 2 * max(v),
)
state("Those are parameters. Each has 16 bytes of state.", ddp=lambda v, n: sum(v))

# ---- Task 2: mlp_nbytes ----


def half(s, b, h, t, e, way, norm=None, stats=None, product=None, inside=None):
    """Bytes of one way, if each of the four things is divided by what is given, or else by what is right."""
    outside = 1 if way == "tensor" else t
    return (
        e
        * s
        * b
        * sum(
            (
                h // (norm or outside),
                2 / (stats or norm or outside),
                h // (product or (t if way == "again" else 1)),
                8 * h // (inside or t),
            )
        )
    )


def mlp(message, ways, **wrong):
    """Wrong divisors, as functions of t; said of the ways named."""

    def mlp_nbytes(s, b, h, t, itemsize, way):
        if way not in ways.split():
            return half(s, b, h, t, itemsize, way)
        return half(s, b, h, t, itemsize, way, **{name: divisor(t) for name, divisor in wrong.items()})

    check.mlp_nbytes.mistake(message)(mlp_nbytes)


def one(t):
    return 1


def all_of(t):
    return t


mlp(
    "The gathered x stays whole here: the first product needs all tokens, and keeps what it was given.",
    "kept",
    product=all_of,
)
mlp(
    "That is all of it divided by t. Tensor parallelism leaves what is outside the products whole: the norm, and x.",
    "tensor",
    norm=all_of,
    product=all_of,
)
mlp(
    "x, the input of the first product, is the same on all ranks under tensor parallelism: it is not divided.",
    "tensor",
    product=all_of,
)
mlp(
    "The norm works on all tokens under tensor parallelism: its input, mean and deviation are not divided.",
    "tensor",
    norm=all_of,
)
mlp(
    "Only GELU's input and output are between the products: they are divided by t, under every way.",
    "tensor kept again",
    inside=one,
)
mlp(
    "With sequence parallelism the norm sees this rank's tokens only: what it keeps is divided by t.",
    "kept again",
    norm=one,
)
mlp("Gathered again means that the shard is kept, and not x whole: divided by t.", "again", product=one)
mlp(
    "With sequence parallelism the norm sees this rank's tokens only: what it keeps is divided by t.",
    "kept again",
    norm=one,
    stats=all_of,
)
mlp(
    "The mean and the deviation are of all tokens under tensor parallelism: they are not divided.",
    "tensor",
    stats=all_of,
)
mlp("The mean and the deviation are of tokens, too: a rank has them for its own tokens only.", "kept again", stats=one)
told = check.mlp_nbytes.mistake


@told("LayerNorm's mean and deviation are missing: 2 elements for each token.")
def no_statistics(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) - 2 * itemsize * s * b // (1 if way == "tensor" else t)


@told("GELU's output and the input of the second product are one storage: it counts once.")
def counted_twice(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) + 4 * itemsize * s * b * h // t


@told("GELU saves its input, and the second product keeps GELU's output: 4 and 4 times the width, not 4 in all.")
def only_one_of_four(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) - 4 * itemsize * s * b * h // t


@told("Elements were counted, not bytes: multiply by itemsize.")
def elements(s, b, h, t, itemsize, way):
    return half(s, b, h, t, 1, way)


for size, name in ((2, "two"), (4, "four")):
    told(f"That is for elements of {name} bytes. Here an element has `itemsize` bytes.")(
        lambda s, b, h, t, itemsize, way, size=size: half(s, b, h, t, size, way)
    )


@told("The mean and the deviation have `itemsize` bytes each, like all the rest.")
def float32_statistics(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) + 2 * (4 - itemsize) * s * b // (1 if way == "tensor" else t)


@told("LayerNorm keeps two elements for each token, the mean and 1/std: here it is one.")
def one_statistic(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) - itemsize * s * b // (1 if way == "tensor" else t)


@told("Parameters are not counted: the two matrices are there anyway.")
def with_parameters(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) + itemsize * 8 * h * h // t


@told("Those are the bytes of all ranks together. What one rank keeps is asked for.")
def all_ranks(s, b, h, t, itemsize, way):
    return t * half(s, b, h, t, itemsize, way)


@told("The mean and the deviation are of all sequences: 2 elements for each of the sb tokens.")
def one_sequence(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) - 2 * itemsize * s * (b - 1) // (1 if way == "tensor" else t)


@told("More is counted than is kept outside the products: once sbh elements for the norm's input, once for x.")
def one_more_outside(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) + itemsize * s * b * h // (1 if way == "tensor" else t)


@told('The shard of x was counted besides the gathered x: under "kept" the gathered one is all that is kept of it.')
def shard_besides(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) + (itemsize * s * b * h // t if way == "kept" else 0)


@told('Nothing is kept of x under "again"? Its shard is: without it there is nothing to gather again.')
def nothing_of_x(s, b, h, t, itemsize, way):
    return half(s, b, h, t, itemsize, way) - (itemsize * s * b * h // t if way == "again" else 0)


# ---- Task 3: plans ----


def right_bytes(config, batch, replicas, tensor, sequence, recompute, *, state=None, gathered=1, again=1, acts=1):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    layer = formulas.layer_nbytes(config, batch, "none", **split)
    whole = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    back = layer - formulas.layer_nbytes(config, batch, recompute, **split)
    ranks = replicas * tensor if state is None else state
    return 16 * config.parameters // ranks + kept // acts + int(gathered * whole) + int(again * back)


def by_work(nbytes, memory, plans, key=None, strict=False):
    level = ("none", "selective", "full").index
    fits = [n for n in plans if (nbytes[n] < memory if strict else nbytes[n] <= memory)]
    key = key or (lambda level, tensor, nbytes: (level, tensor, nbytes))
    return sorted(fits, key=lambda n: key(level(plans[n]["recompute"]), plans[n]["tensor"], nbytes[n]))


def plan(message, change):
    """A wrong count; `change` gives the options of right_bytes for a plan."""

    def plan_nbytes(config, batch, **plan):
        return right_bytes(config, batch, **plan, **change(plan))

    counted(message, plan_nbytes)


def counted(message, plan_nbytes):
    check.plans.mistake(message, plan_nbytes, None)


plan("The layer that runs is gathered: its weights are whole, and that term is missing.", lambda p: {"gathered": 0})
plan("What one layer recomputes is alive with the rest: that term is missing.", lambda p: {"again": 0})
check.plans.mistake(
    "Layers are recomputed one after another: what one layer recomputes is alive, not what all of them do.",
    lambda config, batch, **plan: right_bytes(config, batch, **plan, again=config.layers),
    None,
)
plan(
    "The layer that runs is gathered, and what it recomputes is alive: both terms are missing.",
    lambda p: {"again": 0, "gathered": 0},
)
plan(
    "State is sharded over all ranks, replicas · tensor: here it is divided by the replicas only.",
    lambda p: {"state": p["replicas"]},
)
plan(
    "State is sharded over all ranks, replicas · tensor: here it is divided by tensor only.",
    lambda p: {"state": p["tensor"]},
)
plan("State is sharded by FSDP: here every rank has all of it.", lambda p: {"state": 1})
plan("Activations are not divided by the replicas: each has sequences of its own.", lambda p: {"acts": p["replicas"]})
plan(
    "Gathered weights are 2 bytes for each parameter: gradients and optimizer state stay sharded.",
    lambda p: {"gathered": 8},
)
plan(
    "The gathered layer is split by tensor parallelism: a rank gathers its part of it, not the whole layer.",
    lambda p: {"gathered": p["tensor"]},
)
told = check.plans.mistake


def term(message, name, change):
    """One of the four terms is another: change(config, batch, plan, formulas for this plan) -> bytes."""

    def plan_nbytes(config, batch, **plan):
        split = {"tensor_parallel": plan["tensor"], "sequence_parallel": plan["sequence"]}

        def layer(recompute):
            return formulas.layer_nbytes(config, batch, recompute, **split)

        terms = {
            "state": 16 * config.parameters // (plan["replicas"] * plan["tensor"]),
            "kept": formulas.activation_nbytes(config, batch, plan["recompute"], **split),
            "gathered": 2 * (12 * config.width**2 + 13 * config.width) // plan["tensor"],
            "again": layer("none") - layer(plan["recompute"]),
        }
        return sum(int(nbytes) for nbytes in {**terms, name: change(config, terms[name], plan, layer)}.values())

    counted(message, plan_nbytes)


term(
    'The last term is what a layer would keep with "none", less what it keeps anyway: that is counted already.',
    "again",
    lambda config, right, plan, layer: layer("none"),
)
term(
    'The last term is what a layer would keep with "none", less what it keeps anyway: that is counted already.',
    "again",
    lambda config, right, plan, layer: 0 if plan["recompute"] == "none" else layer("none"),
)
term(
    'What is recomputed comes on top, it is not subtracted: what a layer would keep with "none", less what it keeps.',
    "again",
    lambda config, right, plan, layer: -right,
)
term(
    "The activations are those of one layer: a rank keeps all layers', formulas.activation_nbytes.",
    "kept",
    lambda config, right, plan, layer: layer(plan["recompute"]),
)
term(
    'What is kept depends on the recomputation: here it is counted as with "none".',
    "kept",
    lambda config, right, plan, layer: config.layers * layer("none"),
)
term(
    "formulas.activation_nbytes divides by tensor already: here it is divided twice.",
    "kept",
    lambda config, right, plan, layer: right // plan["tensor"],
)
term(
    "State has 16 bytes for each parameter: weights and gradients, too, not the optimizer's 12 alone.",
    "state",
    lambda config, right, plan, layer: 12 * config.parameters // (plan["replicas"] * plan["tensor"]),
)
term(
    "One layer is gathered at a time, 12h² + 13h parameters, not the whole model.",
    "gathered",
    lambda config, right, plan, layer: 2 * config.parameters // plan["tensor"],
)
term(
    "The gathered layer is not divided by the replicas: it was gathered from them.",
    "gathered",
    lambda config, right, plan, layer: right // plan["replicas"],
)
term(
    "Gathered weights have 2 bytes for each parameter: here it is one.",
    "gathered",
    lambda config, right, plan, layer: right // 2,
)
term(
    "A layer has 12h² + 13h parameters: the 13h are missing.",
    "gathered",
    lambda config, right, plan, layer: 24 * config.width**2 // plan["tensor"],
)
counted(
    "The batch is that of one replica already: it is not multiplied by the replicas.",
    lambda config, batch, **plan: right_bytes(config, batch * plan["replicas"], **plan),
)


def not_split(config, batch, **plan):
    whole = right_bytes(config, batch, **{**plan, "tensor": 1, "sequence": False}, gathered=0)
    gathered = 2 * (12 * config.width**2 + 13 * config.width) // plan["tensor"]
    ranks = plan["replicas"] * plan["tensor"]
    return whole - 16 * config.parameters // plan["replicas"] + 16 * config.parameters // ranks + gathered


counted("tensor and sequence are not passed on to the formulas: activations are those of one device.", not_split)


def again_whole(config, batch, **plan):
    none, kept = (formulas.layer_nbytes(config, batch, recompute) for recompute in ("none", plan["recompute"]))
    return right_bytes(config, batch, **plan, again=0) + none - kept


counted("tensor and sequence are not passed on in the last term: what is recomputed is split, too.", again_whole)


def ignoring(**fixed):
    return lambda config, batch, **plan: right_bytes(config, batch, **{**plan, **fixed})


counted("Sequence parallelism is not passed on: half of the plans split the tokens.", ignoring(sequence=False))
counted(
    "The batch is not passed on: a replica may have more than one sequence.",
    lambda config, batch, **plan: right_bytes(config, 1, **plan),
)


def orders(message, key=None, strict=False):
    def order(nbytes, memory, plans):
        return by_work(nbytes, memory, plans, key, strict)

    told(message, None, order)


orders("A plan that fills the memory to the last byte fits: at most, not less than.", strict=True)
orders(
    "By bytes alone: the order is by work, and only the last tie is decided by bytes.", lambda level, t, nbytes: nbytes
)
orders(
    "The smaller tensor comes first, but only among plans with the same recomputation.",
    lambda level, t, nbytes: (t, level, nbytes),
)
orders(
    "Fewer bytes first only decides between plans of the same recomputation and the same tensor.",
    lambda level, t, nbytes: (level, nbytes),
)
orders(
    'The other way round: least work first, "none" before "selective" before "full".',
    lambda level, t, nbytes: (-level, -t, -nbytes),
)
orders('The other way round: "none" before "selective" before "full".', lambda level, t, nbytes: (-level, t, nbytes))
orders(
    'Sorted as text, "full" comes before "none": the order of work is "none", "selective", "full".',
    lambda level, t, nbytes: (("none", "selective", "full")[level], t, nbytes),
)
orders(
    "Of two plans with the same recomputation and tensor the one with fewer bytes comes first.",
    lambda level, t, nbytes: (level, t, -nbytes),
)


orders(
    "The smaller tensor comes first, not the larger: it communicates less.",
    lambda level, t, nbytes: (level, -t, nbytes),
)
told(
    "PLANS was asked, where `plans` is given: another cluster may have other plans.",
    None,
    lambda nbytes, memory, plans: by_work(nbytes, memory, {name: PLANS[name] for name in plans}),
)


def all_of_them(nbytes, memory, plans):
    return by_work(nbytes, 10**30, plans)


told(
    "Plans that do not fit are in the list: only those with at most `memory` bytes are asked for.",
    None,
    all_of_them,
)


def as_given(nbytes, memory, plans):
    fits = set(by_work(nbytes, memory, plans))
    return [name for name in plans if name in fits]


told("The plans that fit are in the order in which they were given: sort them by work.", None, as_given)


def by_name(nbytes, memory, plans):
    return sorted(by_work(nbytes, memory, plans))


told("The plans that fit are in the order of their names: sort them by work.", None, by_name)

# ---- Task 4: parallel_mlp ----


def same(x):
    return x.view_as(x)


def add(x):
    x = x.clone()
    dist.all_reduce(x)
    return x


def mean(x):
    return add(x) / dist.get_world_size()


def parallel(message, ahead_in=same, back_in=add, ahead_out=add, back_out=same, bias_inside=False, share=False):
    def parallel_mlp(x, a, b, bias):
        into, out = border(ahead_in, back_in), border(ahead_out, back_out)
        y = F.gelu(into(x) @ a.T) @ b.T
        if bias_inside:
            return out(y + (bias / dist.get_world_size() if share else bias))
        return out(y) + bias

    check.parallel_mlp.mistake(message, parallel_mlp)


parallel(
    "The bias is added on every rank and then summed, once for each rank: add it behind the sum.", bias_inside=True
)
parallel(
    "Every rank's part uses x, so its gradient is the sum over the ranks: here it is one rank's contribution.",
    back_in=same,
)
parallel(
    "Shares of the bias add up to the right y, but its gradient is divided, too: add it behind the sum.",
    bias_inside=True,
    share=True,
)
parallel(
    "The sum's backward does nothing: dy is the same on all ranks already. Summed again, it is twice too large.",
    back_out=add,
)
parallel("x's gradient is the sum of the ranks' contributions, not their mean.", back_in=mean)
parallel("The parts of y are to be summed, not averaged.", ahead_out=mean)
parallel("y is this rank's part only: the parts have to be summed.", ahead_out=same)
parallel("x is the same on every rank: summed on the way in, it is twice too large.", ahead_in=add)


parallel(
    "The two borders have changed places: into the products it is backward that sums, out of them forward.",
    ahead_in=add,
    back_in=same,
    ahead_out=same,
    back_out=add,
)
parallel(
    "The other way round: x's gradient is to be summed, and dy, behind the sum, is the same on all ranks already.",
    back_in=same,
    back_out=add,
)


def answers(message):
    return lambda answer: check.parallel_mlp.mistake(message, answer)


@answers("Each rank applies GELU to its own hidden units: nothing is summed between the two products.")
def summed_inside(x, a, b, bias):
    return F.gelu(border(add, same)(border(same, add)(x) @ a.T)) @ b.T + bias


@answers("a and b are this rank's own: no other rank uses them, and their gradients are not summed.")
def summed_weights(x, a, b, bias):
    into = border(same, add)
    return border(add, same)(F.gelu(into(x) @ into(a).T) @ into(b).T) + bias


@answers("Behind the sum dy is the same on all ranks: bias's gradient is complete, and summed it is too large.")
def summed_bias(x, a, b, bias):
    into = border(same, add)
    return border(add, same)(F.gelu(into(x) @ a.T) @ b.T) + into(bias)


@answers("The bias was added on every rank and subtracted again: y may be right, but bias's gradient cancels.")
def subtracted(x, a, b, bias):
    y = F.gelu(border(same, add)(x) @ a.T) @ b.T + bias
    return border(add, same)(y) - (dist.get_world_size() - 1) * bias


def on_rank_0(x, a, b, bias):
    y = F.gelu(border(same, add)(x) @ a.T) @ b.T
    return border(add, same)(y + bias if dist.get_rank() == 0 else y)


check.parallel_mlp.mistake(
    "Only rank 0 uses the bias: y is right, but the other ranks' bias gets no gradient. Add it behind the sum, on "
    "every rank.",
    on_rank_0,
)


def cut_off(x, a, b, bias):
    y = F.gelu(border(same, add)(x) @ a.T) @ b.T
    return add(y.detach()).requires_grad_() + bias


check.parallel_mlp.mistake(
    "No gradient arrives here. Is the graph cut on the way to y, or does a backward return None, as all_reduce does?",
    cut_off,
)


# ---- Task 5: gather ----


def pieces(tensor, dim):
    return [piece.contiguous() for piece in tensor.chunk(dist.get_world_size(), dim)]


def gathered(x, dim, ranks=None):
    found = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(found, x.contiguous())
    return torch.cat(found[:ranks], dim)


def summed(dy):
    dy = dy.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(dy)
    return dy


def wide(x, dim):
    return [size * (dist.get_world_size() if i == dim else 1) for i, size in enumerate(x.shape)]


def function(message, ahead=gathered, back=None, nones=1):
    """A Gather that is right but for what is given."""

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, dim):
            ctx.dim = dim
            return ahead(x, dim)

        @staticmethod
        def backward(ctx, dy):
            dx = back(dy, ctx.dim) if back else pieces(summed(dy), ctx.dim)[dist.get_rank()]
            return (dx, None) if nones else dx

    check.gather.mistake(message, Gather)


function(
    "Every rank has a dy for all pieces: the gradient of mine is the sum of what all say. Here it is one rank's alone.",
    back=lambda dy, dim: pieces(dy, dim)[dist.get_rank()],
)
function(
    "The sum is right, but all of it: this rank's piece is asked for, of x's shape.", back=lambda dy, dim: summed(dy)
)
function("dy was handed on as it is: sum it over the ranks, and take this rank's piece.", back=lambda dy, dim: dy)
function(
    "dy was gathered once more. The backward of an all-gather is the other collective: reduce-scatter.",
    back=lambda dy, dim: gathered(dy, dim),
)
function(
    "The mean over the ranks was taken: gradients of all uses are added up.",
    back=lambda dy, dim: pieces(summed(dy), dim)[dist.get_rank()] / dist.get_world_size(),
)
function(
    "Rank 0's piece, on every rank: take the piece with this rank's number.",
    back=lambda dy, dim: pieces(summed(dy), dim)[0],
)
function(
    "Along dim 0, whatever dim is: the collectives work along the first dimension, so bring yours there and back.",
    ahead=lambda x, dim: gathered(x, 0),
    back=lambda dy, dim: pieces(summed(dy), 0)[dist.get_rank()],
)
function(
    "Forward goes along dim, backward along dim 0: bring the dimension to the front in both.",
    back=lambda dy, dim: pieces(summed(dy), 0)[dist.get_rank()],
)
function(
    "y is not moved back: its dimension dim is still in front.",
    ahead=lambda x, dim: gathered(x.movedim(dim, 0).contiguous(), 0),
)
function(
    "dx is not moved back: its dimension dim is still in front.",
    back=lambda dy, dim: pieces(summed(dy), dim)[dist.get_rank()].movedim(dim, 0),
)
function(
    "y has the right shape, but the pieces were put together along dim 0: view and reshape move no dimension, movedim "
    "does.",
    ahead=lambda x, dim: gathered(x, 0).reshape(wide(x, dim)),
)
function(
    "Copies of this rank's own piece: nobody was asked for theirs. That is what an all-gather does.",
    ahead=lambda x, dim: torch.cat([x] * dist.get_world_size(), dim),
)


def in_order(order):
    """Of the ranks' numbers, order(rank, ranks)."""

    def ahead(x, dim):
        found = pieces(gathered(x, dim), dim)
        return torch.cat([found[i] for i in order(dist.get_rank(), len(found))], dim)

    function("The pieces are there, but in another order: rank 0's comes first, on every rank.", ahead=ahead)


in_order(lambda rank, ranks: reversed(range(ranks)))
in_order(lambda rank, ranks: sorted(range(ranks), key=lambda i: i != rank))  # this rank's own first, then the others
in_order(lambda rank, ranks: [(rank + i) % ranks for i in range(ranks)])
function(
    "Two pieces, whatever the number of ranks: ask dist.get_world_size().", ahead=lambda x, dim: gathered(x, dim, 2)
)
function("One gradient was returned. apply took two arguments, x and dim: return one for each, None for dim.", nones=0)
function(
    "The pieces were stacked in a new dimension: they go one after another along dim.",
    ahead=lambda x, dim: torch.stack(gathered(x[None], 0).unbind(), dim),
)
function(
    "The pieces were added up, not put one after another: that is an all-reduce.",
    ahead=lambda x, dim: summed(x),
    back=lambda dy, dim: dy,
)
