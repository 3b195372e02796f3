# %% by building and costing a schedule
def periodic_cost(n, k, save_chunk):
    m, actions = n // k, []
    for lo in range(0, n - m, m):
        actions.append(("save input", lo))
        actions += [("forward", i) for i in range(lo + 1, lo + m)]
    for lo in range(n - m, -1, -m):
        fresh = lo == n - m
        for hi in [lo + m] if save_chunk else range(lo + m, lo, -1):
            if not fresh:
                actions.append(("restore", lo))
            fresh = False
            first = lo if save_chunk else hi - 1
            actions += [("save input" if i == lo else "forward", i) for i in range(lo, first)]
            actions += [("save all", i) for i in range(first, hi)]
            actions += [("backward", i) for i in reversed(range(first, hi))]
    cost = ck.Schedule(n, actions).cost()
    return {"forwards": cost.forwards, "peak": cost.peak}


# %% sums, and floats that are whole numbers
def periodic_cost(n, k, save_chunk):
    m = n // k
    again = (k - 1) * m if save_chunk else sum(sum(range(1, m + 1)) for _ in range(k)) - m
    return dict(forwards=n + again, peak=k + (m if save_chunk else 2))


# %% counted stage by stage, in a defaultdict
from collections import defaultdict


def periodic_cost(n, k, save_chunk):
    m, cost = n // k, defaultdict(int)
    for stage in range(n):
        first = stage < n - m
        own = 1 if save_chunk else m - stage % m
        cost["forwards"] += first + own
    cost["peak"] = len(range(0, n, m)) + max(2, m * bool(save_chunk))
    return cost
