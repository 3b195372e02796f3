# %% counts products alone
def policy_for(segment, args, budget):
    products = [c for c in segment_costs(segment, *args) if c.flops]
    prices = [(c.flops if c.again else 0, c.nbytes) for c in products]
    verdicts = iter([i in choose(prices, budget) for i in range(len(prices))])

    def policy(ctx, op, *args, **kwargs):
        return op.overloadpacket in PRODUCTS and next(verdicts)

    return policy


# %% runs the segment more than once to plan
def policy_for(segment, args, budget):
    places = [i for i, cost in enumerate(segment_costs(segment, *args)) if cost.flops and cost.again]
    prices = [segment_costs(segment, *args)[i][1:3] for i in places]
    kept = [places[i] for i in choose(prices, budget)]
    verdicts = iter([i in kept for i in range(len(segment_costs(segment, *args)))])
    return lambda ctx, op, *args, **kwargs: next(verdicts)


# %% an object that is called
class Chosen:
    def __init__(self, places):
        self.places, self.place = places, -1

    def __call__(self, ctx, op, *args, **kwargs):
        self.place += 1
        return CheckpointPolicy.PREFER_SAVE if self.place in self.places else CheckpointPolicy.PREFER_RECOMPUTE


def policy_for(segment, args, budget):
    best = (0, 0, ())
    costs = [(i, c.flops, c.nbytes) for i, c in enumerate(segment_costs(segment, *args)) if c.again and c.flops > 0]
    for n in range(1, len(costs) + 1):
        for some in combinations(costs, n):
            nbytes = sum(size for _, _, size in some)
            if nbytes <= budget:
                best = max(best, (sum(flops for _, flops, _ in some), -nbytes, tuple(i for i, _, _ in some)))
    return Chosen(set(best[2]))


# %% a generator gives the verdicts
def policy_for(segment, args, budget):
    def verdicts():
        costs = segment_costs(segment, *args)
        worth = {i: (c.flops, c.nbytes) for i, c in enumerate(costs) if c.flops and c.again}
        kept = [list(worth)[i] for i in choose(list(worth.values()), budget)]
        for place in count():
            yield CheckpointPolicy.MUST_SAVE if place in kept else CheckpointPolicy.MUST_RECOMPUTE

    answers = list(zip(range(1000), verdicts()))
    rest = iter(answers)
    return lambda ctx, op, *args, **kwargs: next(rest)[1]
