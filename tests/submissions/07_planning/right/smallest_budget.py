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
