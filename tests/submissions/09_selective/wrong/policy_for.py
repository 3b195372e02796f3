# %% Early stop leaves it out
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    count = iter(range(10**6))
    return lambda ctx, op, *args, **kwargs: next(count) in kept


# %% Another result of the same size
# breaks: by its place in the order
def policy_for(segment, args, budget):
    costs = [c for c in segment_costs(segment, *args) if c.flops and c.again]
    sizes = {costs[i].nbytes for i in choose([(c.flops, c.nbytes) for c in costs], budget)}

    def policy(ctx, op, *args, **kwargs):
        return op is aten.addmm.default and ctx.op_output.nbytes in sizes

    return policy


# %% left no room for two that together spare more
# breaks: As few FLOPs as possible are recomputed
def policy_for(segment, args, budget):
    costs, kept, count = segment_costs(segment, *args), set(), iter(range(10**6))
    dear = [i for i, c in enumerate(costs) if c.flops and c.again]
    for i in sorted(dear, key=lambda i: costs[i].flops / costs[i].nbytes, reverse=True):
        if costs[i].nbytes <= budget:
            kept.add(i)
            budget -= costs[i].nbytes
    return lambda ctx, op, *args, **kwargs: next(count) in kept


# %% taken as they come
def policy_for(segment, args, budget):
    room = budget

    def policy(ctx, op, *args, **kwargs):
        nonlocal room
        if op is not aten.addmm.default or ctx.op_output.nbytes > room:
            return CheckpointPolicy.PREFER_RECOMPUTE
        room -= ctx.op_output.nbytes
        return CheckpointPolicy.MUST_SAVE

    return policy


# %% is it counted once for every question
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    return lambda ctx, op, *args, **kwargs: op in kept


# %% whatever the budget
def policy_for(segment, args, budget):
    return lambda ctx, op, *args, **kwargs: op is aten.addmm.default


# %% TypeError: linear(): argument 'input'
def policy_for(segment, args, budget):
    costs = segment_costs(segment, args)
    return lambda ctx, op, *args, **kwargs: False


# %% same shapes, ends in Linear: choose returns indices into your list of prices
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    prices = [(cost.flops, cost.nbytes) for cost in costs if cost.flops and cost.again]
    kept, asked = choose(prices, budget), count()
    return lambda ctx, op, *args, **kwargs: next(asked) in kept


# %% More bytes are kept than the budget allows
# breaks: takes at most `budget` bytes
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    dear = sorted((i for i, c in enumerate(costs) if c.flops), key=lambda i: -costs[i].flops)[:3]
    asked = count()
    return lambda ctx, op, *args, **kwargs: next(asked) in dear


# %% is the verdict on the chosen ones MUST_SAVE
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    asked = count()

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_CPU_OFFLOAD if next(asked) in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


# %% what chooses for them, are switched off here
# breaks: the library's `by_budget` is switched off
def policy_for(segment, args, budget):
    from ckptlib.recompute.selective import by_budget

    return by_budget(budget, segment, *args)


# %% same shapes, ends in Linear, not greedy: What is worth it is not kept
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    asked = count()

    def policy(ctx, op, *args, **kwargs):
        if op.overloadpacket in PRODUCTS and next(asked) in kept:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return policy


# %% from 0 by every policy
# breaks: It starts from 0
asked = count()
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, c in enumerate(costs) if c.flops and c.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    return lambda ctx, op, *args, **kwargs: next(asked) in kept


# %% same shapes: Another result of the same size
def policy_for(segment, args, budget):
    costs = [c for c in segment_costs(segment, *args) if c.flops and c.again]
    kept = {(costs[i].flops, costs[i].nbytes) for i in choose([(c.flops, c.nbytes) for c in costs], budget)}
    def policy(ctx, op, *args, **kwargs):
        if op is not aten.addmm.default:
            return False
        f = 2 * args[1].shape[0] * args[1].shape[1] * args[2].shape[1]
        return (f, ctx.op_output.nbytes) in kept
    return policy


# %% not greedy: error: TypeError
# breaks: with any number of arguments
def policy_for(segment, args, budget):
    costs = segment_costs(segment, args[0])
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    asked = count()
    return lambda ctx, op, *args, **kwargs: next(asked) in kept


# %% returned set, expected a function
# breaks: A policy is a function
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    return {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}


# %% ends in Linear: Two choices spare equally many FLOPs here
# breaks: the one with the fewest bytes is kept
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    every = [c for n in range(len(places) + 1) for c in combinations(places, n)]
    fitting = [c for c in every if sum(costs[i].nbytes for i in c) <= budget]
    kept = max(fitting, key=lambda c: sum(costs[i].flops for i in c))
    asked = count()
    return lambda ctx, op, *args, **kwargs: next(asked) in kept


# %% has left gradients in .grad
# breaks: it leaves no gradients behind
def policy_for(segment, args, budget):
    segment(*args).sum().backward()
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    kept = {places[i] for i in choose([(costs[i].flops, costs[i].nbytes) for i in places], budget)}
    asked = count()
    return lambda ctx, op, *args, **kwargs: next(asked) in kept


# %% same shapes: error: ValueError
# breaks: There may be no room for any result
def policy_for(segment, args, budget):
    costs = segment_costs(segment, *args)
    places = [i for i, cost in enumerate(costs) if cost.flops and cost.again]
    every = [c for n in range(1, len(places) + 1) for c in combinations(places, n)]
    fitting = [c for c in every if sum(costs[i].nbytes for i in c) <= budget]
    kept = max(fitting, key=lambda c: (sum(costs[i].flops for i in c), -sum(costs[i].nbytes for i in c)))
    asked = count()
    return lambda ctx, op, *args, **kwargs: next(asked) in kept
