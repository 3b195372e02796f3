# %% max, not a sum
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [x[u] + need(u, t) + need(s, u - 1) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% is always in memory: add it
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [max(x[u] + need(u, t), need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return need(0, len(xbar) - 1)


# %% where none is allowed
def smallest_budget(x, xbar, allowed):
    n = len(xbar)
    try:
        ck.optimal(ck.Costs([1] * n, [1] * n, x, xbar, dx=[0] * (n + 1)), 0)
    except ck.CkptError as error:
        return error.smallest


# %% The checkpoint itself is missing
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [max(need(u, t), need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% That is the largest single stage
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [max(xbar[s], need(s + 1, t))]
        ways += [max(x[u] + need(u, t), need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% Every allowed checkpoint was kept at the same time
def smallest_budget(x, xbar, allowed):
    starts = sorted(allowed)
    return predict_peak(x, xbar, starts)


# %% x[0] is missing, too
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [x[u] + need(u, t) + need(s, u - 1) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return need(0, len(xbar) - 1)


# %% charged to both parts
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [max(x[u] + need(u, t), x[u] + need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)
