# %% Its stages run once
# breaks: Its stages do not run before that
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n, "peak": k + m}
    return {"forwards": n - m + k * m * (m + 1) // 2, "peak": k + 2}


# %% That is the other reading
# breaks: If `save_chunk` is True
def periodic_cost(n, k, save_chunk):
    m = n // k
    return {"forwards": 2 * n - m, "peak": k + m}


# %% That is the other reading
# breaks: If `save_chunk` is False
def periodic_cost(n, k, save_chunk):
    m = n // k
    return {"forwards": n - m + k * m * (m + 1) // 2, "peak": k + 2}


# %% n²/k is how it grows
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n * n // k, "peak": k}


# %% The checkpoints alone
# breaks: `"peak"` is the largest number
def periodic_cost(n, k, save_chunk):
    m = n // k
    return {"forwards": 2 * n - m if save_chunk else n - m + k * m * (m + 1) // 2, "peak": k}


# %% n − m too few
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": k * m * (m + 1) // 2, "peak": k + 2}


# %% n − m too few
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n + k * m * (m - 1) // 2, "peak": k + 2}


# %% runs for its own backward
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n - m + k * m * (m - 1) // 2, "peak": k + 2}


# %% A dict is asked
def periodic_cost(n, k, save_chunk):
    m = n // k
    return {"forwards": 2 * n - m if save_chunk else n - m + k * m * (m + 1) // 2}


# %% switched off
# breaks: The library's builders
def periodic_cost(n, k, save_chunk):
    cost = ck.periodic(n, k, save_chunk).cost()
    return {"forwards": cost.forwards, "peak": cost.peak}


# %% there are k of them
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n - m + m * (m + 1) // 2, "peak": k + 2}


# %% The two numbers are exchanged
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"peak": 2 * n - m, "forwards": k + m}
    return {"forwards": n - m + k * m * (m + 1) // 2, "peak": k + 2}


# %% A dict is asked
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return 2 * n - m, k + m
    return n - m + k * m * (m + 1) // 2, k + 2


# %% there all k checkpoints are alive
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": m + 1}
    return {"forwards": n - m + k * m * (m + 1) // 2, "peak": k + 2}


# %% one stage at a time, peak: These are chunks of k stages
def periodic_cost(n, k, save_chunk):
    m, k = k, n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n - m + k * m * (m + 1) // 2, "peak": k + 2}


# %% First runs count, too
# breaks: including first runs
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": m * (k - 1), "peak": k + m}
    return {"forwards": k * m * (m + 1) // 2 - m, "peak": k + 2}


# %% one stage at a time, forwards, one stage at a time, peak: raised
def periodic_cost(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return {"forwards": 2 * n - m, "peak": k + m}
    return {"forwards": n - m + k * sum(range(m + 1)), "peaks": k + 2}["peak"]
