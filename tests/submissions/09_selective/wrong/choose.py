# %% by FLOPs or by FLOPs per byte
def choose(costs, budget):
    kept = []
    for i in sorted(range(len(costs)), key=lambda i: costs[i][0] / costs[i][1], reverse=True):
        if costs[i][0] and costs[i][1] <= budget:
            kept.append(i)
            budget -= costs[i][1]
    return kept


# %% a dear result can leave no room
def choose(costs, budget):
    kept = []
    for i in sorted(range(len(costs)), key=lambda i: -costs[i][0]):
        if costs[i][0] and costs[i][1] <= budget:
            kept.append(i)
            budget -= costs[i][1]
    return kept


# %% A result that costs 0 FLOPs is kept
def choose(costs, budget):
    n = len(costs)
    subsets = [[i for i in range(n) if mask >> i & 1] for mask in reversed(range(2**n))]
    fit = [s for s in subsets if sum(costs[i][1] for i in s) <= budget]
    return max(fit, key=lambda s: (sum(costs[i][0] for i in s), len(s), sum(costs[i][1] for i in s)))


# %% The budget is exceeded
def choose(costs, budget):
    return [i for i, (flops, nbytes) in enumerate(costs) if flops > 0]


# %% all that are kept together
def choose(costs, budget):
    return [i for i, (flops, nbytes) in enumerate(costs) if flops and nbytes <= budget]


# %% The fullest budget is not the aim
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][1] for i in c), sum(costs[i][0] for i in c))))


# %% one large, two small: At most `budget` bytes
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) < budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% equal FLOPs: Two choices spare as many FLOPs here
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: sum(costs[i][0] for i in c)))
