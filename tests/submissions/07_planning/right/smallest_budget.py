# %% a table, short chains first
def smallest_budget(x, xbar, allowed):
    n = len(xbar)
    need = {(s, s - 1): 0 for s in range(n + 1)}
    for length in range(n):
        for s in range(n - length):
            t = s + length
            need[s, t] = xbar[s] + need[s + 1, t]
            for u in sorted(allowed):
                if s < u <= t:
                    need[s, t] = min(need[s, t], max(need[s, u - 1], x[u] + need[u, t]))
    return need[0, n - 1] + x[0]


# %% by bisection: does a budget suffice?
def smallest_budget(x, xbar, allowed):
    @cache
    def fits(s, t, m):
        if m < 0:
            return False
        if s > t or fits(s + 1, t, m - xbar[s]):
            return True
        return any(fits(u, t, m - x[u]) and fits(s, u - 1, m) for u in allowed if s < u <= t)

    low, high = 0, sum(xbar)  # of what the stages need besides the chain's input
    while low < high:
        middle = (low + high) // 2
        if fits(0, len(xbar) - 1, middle):
            high = middle
        else:
            low = middle + 1
    return x[0] + high


# %% the library's answer where all stages are allowed, and a float
def smallest_budget(x, xbar, allowed):
    n = len(xbar)
    if set(range(n)) <= set(allowed):
        try:
            ck.optimal(ck.Costs([1] * n, [1] * n, x, xbar, dx=[0] * (n + 1)), 0)
        except ck.CkptError as error:
            return error.smallest
    need = [[0.0] * (n + 1) for _ in range(n + 1)]  # from s up to, and without, t
    for s in range(n - 1, -1, -1):
        for t in range(s + 1, n + 1):
            need[s][t] = xbar[s] + need[s + 1][t]
            for u in [u for u in range(s + 1, t) if u in allowed]:
                need[s][t] = min(need[s][t], max(x[u] + need[u][t], need[s][u]))
    return x[0] + need[0][n]
