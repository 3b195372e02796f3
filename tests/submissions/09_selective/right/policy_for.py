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
