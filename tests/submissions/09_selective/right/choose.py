# %% a table of budgets
def choose(costs, budget):
    table = {0: (0, ())}  # bytes -> the most FLOPs spared in exactly so many, and how
    for i, (flops, nbytes) in enumerate(costs):
        for used, (spared, kept) in list(table.items()):
            if used + nbytes <= budget and spared + flops > table.get(used + nbytes, (-1, ()))[0]:
                table[used + nbytes] = spared + flops, (*kept, i)
    most = max(spared for spared, _ in table.values())
    return next(set(kept) for used, (spared, kept) in sorted(table.items()) if spared == most)


# %% with or without each, recursively
def choose(costs, budget):
    def best(i, left):
        if i == len(costs):
            return 0, 0, []
        without = best(i + 1, left)
        flops, nbytes = costs[i]
        if nbytes > left:
            return without
        spared, minus, kept = best(i + 1, left - nbytes)
        return max(without, (spared + flops, minus - nbytes, [i, *kept]))

    return best(0, budget)[2]


# %% an iterator
def choose(costs, budget):
    def rank(mask):
        kept = [cost for i, cost in enumerate(costs) if mask >> i & 1]
        nbytes = sum(cost[1] for cost in kept)
        return nbytes <= budget, sum(cost[0] for cost in kept), -nbytes

    best = max(range(2 ** len(costs)), key=rank)
    return (i for i in range(len(costs)) if best >> i & 1)


# %% from the largest choice down, as a tensor
def choose(costs, budget):
    best = (0, 0, ())
    for n in range(len(costs), 0, -1):
        for kept in combinations(range(len(costs)), n):
            flops, nbytes = (sum(column) for column in zip(*[costs[i] for i in kept]))
            if nbytes <= budget:
                best = max(best, (flops, -nbytes, kept))
    return torch.tensor(best[2], dtype=torch.long)
