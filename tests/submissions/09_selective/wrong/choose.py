# %% by FLOPs or by FLOPs per byte
# breaks: As few FLOPs as possible are recomputed
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
# breaks: Together, the kept results take at most
def choose(costs, budget):
    return [i for i, (flops, nbytes) in enumerate(costs) if flops and nbytes <= budget]


# %% The budget need not be full
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][1] for i in c), sum(costs[i][0] for i in c))))


# %% one large, two small: At most `budget` bytes
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) < budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% equal FLOPs: Two choices spare equally many FLOPs here
# breaks: the one with the fewest bytes is kept
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: sum(costs[i][0] for i in c)))


# %% room for all, or for none: There is room for all of them
def choose(costs, budget):
    every = [c for n in range(len(costs)) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% The empty choice is one of the choices
def choose(costs, budget):
    every = [c for n in range(1, len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% Nothing is kept, although there is room
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(min(fitting, key=lambda c: (sum(costs[i][0] for i in c), sum(costs[i][1] for i in c))))


# %% indices into a list that was sorted
def choose(costs, budget):
    costs.sort(key=lambda cost: -cost[0] / cost[1])
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% Indices count from 0
# breaks: Return a list of indices into `costs`
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return [1 + i for i in max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c)))]


# %% choose returned None: is a `return` missing?
def choose(costs, budget):
    print(costs, budget)


# %% some of many: fewest FLOPs recomputed
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    return list(max((c for c in every if sum(costs[i][1] for i in c) <= budget), key=len))


# %% some of many, one large, two small, equal FLOPs, room for all, or for none: The results to recompute were returned
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    kept = max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c)))
    return [i for i in range(len(costs)) if i not in kept]


# %% indices into `costs` were asked for
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(costs, n)]
    fitting = [c for c in every if sum(nbytes for _, nbytes in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(flops for flops, _ in c), -sum(nbytes for _, nbytes in c))))


# %% some of many, one large, two small: Another choice spares more. Greedy
def choose(costs, budget):
    kept = []
    for i in sorted(range(len(costs)), key=lambda i: -costs[i][0]):
        if costs[i][1] > budget or not costs[i][0]:
            break
        kept.append(i)
        budget -= costs[i][1]
    return kept


# %% no results: error: ValueError
# breaks: and there may be none
def choose(costs, budget):
    least = min(nbytes for _, nbytes in costs)
    if least > budget:
        return []
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))


# %% equal FLOPs: bytes kept
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(
        max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -len(c), -sum(costs[i][1] for i in c)))
    )


# %% equal FLOPs: bytes kept
def choose(costs, budget):
    every = [c for n in range(len(costs) + 1) for c in combinations(range(len(costs)), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), len(c), -sum(costs[i][1] for i in c))))


# %% has changed its argument `costs`
def choose(costs, budget):
    costs.append((0, 0))
    every = [c for n in range(len(costs)) for c in combinations(range(len(costs) - 1), n)]
    fitting = [c for c in every if sum(costs[i][1] for i in c) <= budget]
    return list(max(fitting, key=lambda c: (sum(costs[i][0] for i in c), -sum(costs[i][1] for i in c))))
