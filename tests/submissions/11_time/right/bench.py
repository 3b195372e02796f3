# %% the middle of the sorted times
def bench(step, clock, synchronize, runs):
    def now():
        synchronize()
        return clock()

    step()
    times = []
    for _ in range(runs):
        start = now()
        step()
        times.append(now() - start)
    return sorted(times)[runs // 2]


# %% one reading between two runs
def bench(step, clock, synchronize, runs):
    readings = []
    for _ in range(runs + 1):
        step()
        synchronize()
        readings.append(clock())
    return statistics.median(b - a for a, b in zip(readings, readings[1:]))


# %% the first time is thrown away
def bench(step, clock, synchronize, runs):
    times = []
    for _ in range(1 + runs):
        synchronize()
        before = clock()
        step()
        synchronize()
        after = clock()
        times += [after - before]
    return statistics.median(times[1:])


# %% with a tensor
def bench(step, clock, synchronize, runs):
    import torch

    step()
    synchronize()
    times = torch.zeros(runs, dtype=torch.float64)
    for i in range(runs):
        times[i] -= clock()
        step()
        synchronize()
        times[i] += clock()
    return times.median().item()


# %% more synchronizing than necessary
def bench(step, clock, synchronize, runs):
    synchronize()
    step()
    synchronize()

    def once():
        synchronize()
        synchronize()
        start = clock()
        step()
        synchronize()
        synchronize()
        return clock() - start

    return statistics.median_low([once() for _ in range(runs)])
