# %% let the library run through the actions
def predict_peak(x, xbar, starts):
    n, edges = len(xbar), [*starts, len(xbar)]
    actions = []
    for a, b in zip(edges[:-2], edges[1:-1]):
        actions += [("save input", a), *(("forward", i) for i in range(a + 1, b))]
    for j in reversed(range(len(starts))):
        a, b = edges[j], edges[j + 1]
        if b < n:
            actions.append(("restore", a))
        actions += [("save all", i) for i in range(a, b)] + [("backward", i) for i in reversed(range(a, b))]
    return ck.Schedule(n, actions).cost(ck.Costs([0] * n, [0] * n, x, xbar, dx=[0] * (n + 1))).peak


# %% from the last segment to the first
def predict_peak(x, xbar, starts):
    peak, inputs, end = 0, [x[s] for s in starts], len(xbar)
    while inputs:
        start = starts[len(inputs) - 1]
        peak = max(peak, sum(inputs) + sum(xbar[i] for i in range(start, end)))
        end = start
        inputs.pop()
    return peak


# %% without its last segment it is a shorter chain
def predict_peak(x, xbar, starts):
    if not starts:
        return 0
    last = starts[-1]
    now = sum(x[start] for start in starts) + sum(xbar[last:])
    return max(now, predict_peak(x[: last + 1], xbar[:last], starts[:-1]))
