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


# %% a running sum of tensors, and a tensor comes back
def predict_peak(x, xbar, starts):
    kept = torch.tensor(x)[starts].cumsum(0)
    total = torch.tensor([0, *xbar]).cumsum(0)
    ends = torch.tensor([*starts[1:], len(xbar)])
    return (kept + total[ends] - total[starts]).max()


# %% moment by moment, and a float comes back
def predict_peak(x, xbar, starts):
    memory, most = {}, 0.0
    for start in starts:
        memory["x", start] = x[start]
    for stage in reversed(range(len(xbar))):
        first = max(start for start in starts if start <= stage)
        for i in range(first, stage + 1):
            memory["xbar", i] = xbar[i]
        most = max(most, float(sum(memory.values())))
        del memory["xbar", stage]
        if stage == first:
            del memory["x", first]
    return most
