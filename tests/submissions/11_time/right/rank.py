# %% what all plans share is computed once
def rank(forward, backward, plans, peak, bandwidth, launch):
    def busy(ops):
        return sum(max(f / peak, n / bandwidth) for f, n in ops)

    shared, count = busy(forward) + busy(backward), len(forward) + len(backward)
    found = {}
    for name in plans:
        again = [forward[i] for i in plans[name]]
        found[name] = max(shared + busy(again), (count + len(again)) * launch)
    return {"order": [name for _, name in sorted((t, name) for name, t in found.items())], "seconds": found}


# %% with tensors
def rank(forward, backward, plans, peak, bandwidth, launch):
    import torch

    roofs = torch.tensor([peak, bandwidth], dtype=torch.float64)
    seconds = {}
    for name, again in plans.items():
        ops = torch.tensor(forward + [forward[i] for i in again] + backward, dtype=torch.float64)
        seconds[name] = max((ops / roofs).amax(1).sum().item(), launch * len(ops))
    return {"seconds": seconds, "order": tuple(sorted(seconds, key=lambda name: seconds[name]))}


# %% a queue, simulated: the host launches everything, then waits
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        gpu = host = 0.0
        for flops, nbytes in list(forward) + [forward[i] for i in again] + list(backward):
            host += launch
            gpu += max(flops / peak, nbytes / bandwidth)
        seconds[name] = gpu if gpu > host else host
    order, left = [], dict(seconds)
    while left:
        order.append(min(left, key=left.get))
        del left[order[-1]]
    return {"seconds": seconds, "order": order}


# %% in microseconds at first
def rank(forward, backward, plans, peak, bandwidth, launch):
    per_op = [1e6 * max(f / peak, n / bandwidth) for f, n in forward]
    rest = sum(1e6 * max(f / peak, n / bandwidth) for f, n in backward)
    micro = {
        name: max(
            sum(per_op) + sum(map(per_op.__getitem__, again)) + rest,
            1e6 * launch * (len(forward) + len(again) + len(backward)),
        )
        for name, again in plans.items()
    }
    return {"seconds": {name: t / 1e6 for name, t in micro.items()}, "order": sorted(micro, key=micro.get)}


# %% how often each forward op runs
def rank(forward, backward, plans, peak, bandwidth, launch):
    from collections import Counter

    def roof(op):
        return op[0] / peak if op[0] * bandwidth > op[1] * peak else op[1] / bandwidth

    seconds = {}
    for name, again in plans.items():
        runs = Counter(range(len(forward)))
        runs.update(again)
        busy = sum(times * roof(forward[i]) for i, times in runs.items()) + sum(map(roof, backward))
        seconds[name] = max(busy, (sum(runs.values()) + len(backward)) * launch)
    return dict(seconds=seconds, order=sorted(plans, key=seconds.__getitem__))
