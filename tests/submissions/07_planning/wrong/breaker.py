# %% The peak is the one before it was rewritten
# breaks: after this stage has been rewritten
def breaker(x, xbar):
    n = len(xbar)

    def peak(sizes):
        return ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak

    stage = min(range(n), key=lambda i: peak([*xbar[:i], x[i + 1], *xbar[i + 1 :]]))
    return stage, peak(xbar)


# %% its xbar becomes x[stage + 1], not 0
# breaks: keeps nothing but its output
def breaker(x, xbar):
    n, found = len(xbar), []
    for i in range(n):
        sizes = list(xbar)
        sizes[i] = 0
        found.append((ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak, i))
    peak, stage = min(found)
    return stage, peak


# %% the layer that keeps most, but rewriting another one
def breaker(x, xbar):
    n, stage = len(xbar), xbar.index(max(xbar))
    sizes = list(xbar)
    sizes[stage] = x[stage + 1]
    return stage, ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak


# %% counted from 1
# breaks: Stages are counted from 0
def breaker(x, xbar):
    n, found = len(xbar), []
    for i in range(n):
        sizes = list(xbar)
        sizes[i] = x[i + 1]
        found.append((ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak, i + 1))
    peak, stage = min(found)
    return stage, peak


# %% gradients were counted
def breaker(x, xbar):
    n, found = len(xbar), []
    for i in range(n):
        sizes = list(xbar)
        sizes[i] = x[i + 1]
        found.append((ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes)).peak, i))
    peak, stage = min(found)
    return stage, peak


# %% by how much the peak falls
def breaker(x, xbar):
    n = len(xbar)

    def peak(sizes):
        return ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak

    falls = {i: peak(xbar) - peak([*xbar[:i], x[i + 1], *xbar[i + 1 :]]) for i in range(n)}
    stage = max(falls, key=falls.get)
    return stage, falls[stage]


# %% The output of stage i is x[i + 1]
def breaker(x, xbar):
    n, found = len(xbar), []
    for i in range(n):
        sizes = list(xbar)
        sizes[i] = x[i]
        found.append((ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak, i))
    peak, stage = min(found)
    return stage, peak


# %% xbar itself was changed
# breaks: all others stay as they are
def breaker(x, xbar):
    n, found = len(xbar), []
    for i in range(n):
        xbar[i] = x[i + 1]
        found.append((ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, xbar, dx=[0] * (n + 1))).peak, i))
    peak, stage = min(found)
    return stage, peak


# %% xbar itself was changed
def breaker(x, xbar):
    k = round(len(xbar) ** 0.5)
    best = None
    for i in range(len(xbar)):
        sizes = xbar
        sizes[i] = x[i + 1]
        peak = predict_peak(x, sizes, list(range(0, k * k, k)))
        if best is None or peak < best[1]:
            best = i, peak
    return best


# %% the stage comes first, then the bytes
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((predict_peak(x, changed, list(range(0, n, round(n**0.5)))), stage))
    return min(peaks)


# %% expected two numbers, (stage, nbytes)
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((predict_peak(x, changed, list(range(0, n, round(n**0.5)))), stage))
    return min(peaks)[1]


# %% Is a `return` missing?
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((predict_peak(x, changed, list(range(0, n, round(n**0.5)))), stage))
    min(peaks)


# %% take the smallest of the peaks
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((predict_peak(x, changed, list(range(0, n, round(n**0.5)))), stage))
    return max(peaks)[::-1]


# %% had three stages
# breaks: k segments of k stages each
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((predict_peak(x, changed, list(range(0, n, 3))), stage))
    return min(peaks)[::-1]


# %% for a run that keeps everything. The chain runs
def breaker(x, xbar):
    n = len(xbar)
    peaks = []
    for stage in range(n):
        changed = [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]]
        peaks.append((x[0] + sum(changed), stage))
    return min(peaks)[::-1]


# %% two large layers: That is the layer that keeps most, but rewriting another one
def breaker(x, xbar):
    k = round(len(xbar) ** 0.5)
    starts = list(range(0, k * k, k))
    first = max(starts, key=lambda start: sum(xbar[start : start + k]))
    stage = max(range(first, first + k), key=lambda i: xbar[i])
    return stage, predict_peak(x, [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]], starts)


# %% one large layer, two large layers: In the peak, gradients were counted
# breaks: gradients and temporary tensors do not count
def breaker(x, xbar):
    n = len(xbar)

    def peak(i):
        return ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, [*xbar[:i], x[i + 1], *xbar[i + 1 :]])).peak

    stage = min(range(n), key=peak)
    return stage, peak(stage)


# %% two large layers: The segment is right
def breaker(x, xbar):
    k = round(len(xbar) ** 0.5)
    starts = list(range(0, k * k, k))
    first = max(starts, key=lambda start: sum(x[: start + 1 : k]) + sum(xbar[start : start + k]))
    stage = max(range(first, first + k), key=lambda i: xbar[i])
    return stage, predict_peak(x, [*xbar[:stage], x[stage + 1], *xbar[stage + 1 :]], starts)


# %% has changed its argument `xbar`
def breaker(x, xbar):
    n = len(xbar)

    def peak(sizes):
        return ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak

    peaks = [peak([*xbar[:i], x[i + 1], *xbar[i + 1 :]]) for i in range(n)]
    stage = peaks.index(min(peaks))
    xbar[stage] = x[stage + 1]
    return stage, peak(xbar)


# %% (stage, nbytes)
def breaker(x, xbar):
    n = len(xbar)

    def peak(sizes):
        return ck.sqrt(n).cost(ck.Costs([1] * n, [1] * n, x, sizes, dx=[0] * (n + 1))).peak

    found = [(i, peak([*xbar[:i], x[i + 1], *xbar[i + 1 :]]), peak(xbar)) for i in range(n)]
    return min(found, key=lambda one: one[1])
