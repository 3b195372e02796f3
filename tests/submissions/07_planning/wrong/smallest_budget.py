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


# %% is always in memory. Add it
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
# breaks: u must be in this set
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


# %% That is what the largest single stage needs
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


# %% And x[0] is always in memory
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [x[u] + need(u, t) + need(s, u - 1) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return need(0, len(xbar) - 1)


# %% charged to the left part
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [max(x[u] + need(u, t), x[u] + need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% A single stage needs memory
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s >= t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t + 1):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% A checkpoint at t, the last stage
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% Any stage may keep everything
# breaks: whether it is in `allowed` or not
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t) if s == t or s in allowed else inf]
        for u in range(s + 1, t + 1):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% u itself must be in allowed
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t + 1):
            if u - 1 in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% x[s] was added again
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + x[s] + need(s + 1, t)]
        for u in range(s + 1, t + 1):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% x[s] was added again
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t + 1):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), x[s] + need(s, u - 1)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% Here gradients are free
def smallest_budget(x, xbar, allowed):
    n = len(xbar)
    try:
        ck.optimal(ck.Costs([1] * n, [1] * n, x, xbar), 0)
    except ck.CkptError as error:
        return error.smallest


# %% may have checkpoints of its own
# breaks: checkpoints of its own
def smallest_budget(x, xbar, allowed):
    ways = [[0]]
    for u in sorted(allowed - {0}):
        ways += [[*starts, u] for starts in ways]
    return min(predict_peak(x, xbar, starts) for starts in ways)


# %% Stage u is counted in both parts
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s == t:
            return xbar[s]
        ways = [xbar[s] + need(s + 1, t)]
        for u in range(s + 1, t):
            if u in allowed:
                ways.append(max(x[u] + need(u, t), need(s, u)))
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% charged to the left part
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [xbar[s] + need(s + 1, t)]
        ways += [max(need(u, t), x[u] + need(s, u - 1)) for u in range(s + 1, t + 1) if u in allowed]
        return min(ways)

    return x[0] + need(0, len(xbar) - 1)


# %% has changed its argument `allowed`
def smallest_budget(x, xbar, allowed):
    allowed.discard(0)

    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [max(x[u] + need(u, t), need(s, u - 1)) for u in allowed if s < u <= t]
        return min([xbar[s] + need(s + 1, t), *ways])

    return x[0] + need(0, len(xbar) - 1)


# %% raised ValueError
# breaks: It is possible that stage 0 is the only stage in it
def smallest_budget(x, xbar, allowed):
    @cache
    def need(s, t):
        if s > t:
            return 0
        ways = [max(x[u] + need(u, t), need(s, u - 1)) for u in allowed if s < u <= t]
        return min([xbar[s] + need(s + 1, t), *ways])

    last = len(xbar) - 1
    cut = min(max(x[u] + need(u, last), need(0, u - 1)) for u in allowed if u > 0)
    return x[0] + min(cut, xbar[0] + need(1, last))
