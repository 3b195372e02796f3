# %% this is the time of the launches
# breaks: The GPU may still be working
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        start = clock()
        step()
        times.append(clock() - start)
    return statistics.median(times)


# %% this is the time of the launches
# breaks: and a run is over when it has
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        times.append(clock() - start)
    return statistics.median(times)


# %% this is the time of the launches
def bench(step, clock, synchronize, runs):
    times = []
    for _ in range(runs):
        start = clock()
        step()
        times.append(clock() - start)
    return statistics.mean(times)


# %% Something was still running when the clock started
# breaks: It does not count
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% The first run was counted
# breaks: once for the warm-up
def bench(step, clock, synchronize, runs):
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% The mean lets a few late runs decide
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return sum(times) / len(times)


# %% The least time is what a run can take
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return min(times)


# %% that of the run that was interrupted longest
# breaks: because some runs may be interrupted
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return max(times)


# %% All runs were added
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return sum(times)


# %% This is the last run
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return times[-1]


# %% This is the first timed run
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return times[0]


# %% Sort the times before you take the middle one
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return times[runs // 2]


# %% has the number n // 2, counted from 0
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return sorted(times)[(runs - 1) // 2 - 1 if runs > 1 else 0]


# %% This is a quarter of the way up
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return sorted(times)[runs // 4]


# %% all times were returned
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return times


# %% divided by the number of runs, but each run was timed by itself
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times) / runs


# %% Start and end are the wrong way round
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(start - clock())
    return statistics.median(times)


# %% this was divided by 1,000
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times) / 1000


# %% this was divided by a million
# breaks: in this clock's own unit
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times) / 1e6


# %% The largest time was left out
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.mean(sorted(times)[:-1] or times)


# %% Largest and least time were left out
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.mean(sorted(times)[1:-1] or times)


# %% The spread of the times was returned
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return max(times) - min(times)


# %% one of these was thrown away
def bench(step, clock, synchronize, runs):
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times[1:] or [0])


# %% it was called more often
# breaks: and no more often
def bench(step, clock, synchronize, runs):
    step()
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% it was called more often
def bench(step, clock, synchronize, runs):
    for _ in range(10):
        step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% what was still running was counted
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        start = clock()
        synchronize()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% so the late ones count in full
def bench(step, clock, synchronize, runs):
    step()
    synchronize()
    start = clock()
    for _ in range(runs):
        step()
    synchronize()
    return (clock() - start) / runs


# %% this is the time of the launches
def bench(step, clock, synchronize, runs):
    step()
    synchronize()
    times = []
    for _ in range(runs):
        start = clock()
        step()
        times.append(clock() - start)
    synchronize()
    return statistics.median(times)


# %% the time of one is asked
def bench(step, clock, synchronize, runs):
    step()
    synchronize()
    start = clock()
    for _ in range(runs):
        step()
    synchronize()
    return clock() - start


# %% The step was never called
def bench(step, clock, synchronize, runs):
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


# %% is not right
# breaks: Use no other clock
def bench(step, clock, synchronize, runs):
    import time

    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# %% raised StatisticsError
# breaks: and may be 1
def bench(step, clock, synchronize, runs):
    step()
    times = []
    for _ in range(runs):
        synchronize()
        start = clock()
        step()
        synchronize()
        times.append(clock() - start)
    return statistics.median(sorted(times)[1:-1])
