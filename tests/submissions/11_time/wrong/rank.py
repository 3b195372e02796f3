# %% The roofline holds for each op
# breaks: the time of its own roofline
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = max(sum(op[0] for op in ops) / peak, sum(op[1] for op in ops) / bandwidth)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% the larger of the two times counts, not the sum
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(flops / peak + nbytes / bandwidth for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% Only the FLOPs were timed
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(flops / peak for flops, _ in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% Only the bytes were timed
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(nbytes / bandwidth for _, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% the larger of the two times counts, not the smaller
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(min(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The longest op is not the step
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = max(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% Peak and bandwidth are the wrong way round
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / bandwidth, nbytes / peak) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The ops that run again are missing
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = forward + backward
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% not the whole forward pass
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = forward + forward + backward
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The first forward pass is missing
# breaks: all ops of `forward` once
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The backward pass is missing
# breaks: are lists of ops
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again)]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% not of those that are saved
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in range(len(forward)) if i not in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The numbers count from 0
# breaks: counted from 0
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i - 1] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% run once more, not twice
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in [*again, *again]), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% not of `backward`
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(backward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The ops of `backward` do not run again
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward, *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% take the larger of the two, not the sum
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = busy + len(ops) * launch
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% short kernels wait for the host
# breaks: or the time of all launches
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = busy
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% Only the launches were timed
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = len(ops) * launch
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% if only among the launches
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, (len(forward) + len(backward)) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The backward pass is missing
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, (len(forward) + len(again)) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% one for the whole step was counted
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% compare the sums, not op by op
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(launch, flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% This is in microseconds
# breaks: in seconds
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = 1e6 * max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}


# %% The fastest plan comes first
# breaks: the fastest plan first
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get, reverse=True)}


# %% The order is that of the FLOPs that run again
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(plans, key=lambda name: sum(forward[i][0] for i in plans[name]))}


# %% The order is that of the bytes that move again
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(plans, key=lambda name: sum(forward[i][1] for i in plans[name]))}


# %% The order is that of the number of ops
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(plans, key=lambda name: len(plans[name]))}


# %% The order is that of the names
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(plans)}


# %% in which the plans were passed
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": list(plans)}


# %% only the fastest was returned
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": [min(seconds, key=seconds.get)]}


# %% one name was returned
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": min(seconds, key=seconds.get)}


# %% the seconds were sorted
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds.values())}


# %% pairs were returned
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds, "order": sorted(seconds.items(), key=lambda pair: pair[1])}


# %% order: The dict that was returned lacks this entry
def rank(forward, backward, plans, peak, bandwidth, launch):
    seconds = {}
    for name, again in plans.items():
        ops = [*forward, *(forward[i] for i in again), *backward]
        busy = sum(max(flops / peak, nbytes / bandwidth) for flops, nbytes in ops)
        seconds[name] = max(busy, len(ops) * launch)
    return {"seconds": seconds}


# %% has changed its argument `forward`
# breaks: A function does not change its arguments
def rank(forward, backward, plans, peak, bandwidth, launch):
    for i, (flops, nbytes) in enumerate(forward):
        forward[i] = max(flops / peak, nbytes / bandwidth)
    back = [max(flops / peak, nbytes / bandwidth) for flops, nbytes in backward]
    seconds = {}
    for name, again in plans.items():
        times = [*forward, *(forward[i] for i in again), *back]
        seconds[name] = max(sum(times), launch * len(times))
    return {"seconds": seconds, "order": sorted(seconds, key=seconds.get)}
