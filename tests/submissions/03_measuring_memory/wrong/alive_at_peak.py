# %% alive at the end
def alive_at_peak(events):
    there = {}
    for name, nbytes in events:
        if nbytes > 0:
            there[name] = nbytes
        else:
            there.pop(name)
    return sorted(there.items(), key=lambda entry: (-entry[1], entry[0]))


# %% takes its name out
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {name: n for name, n in events[: live.index(max(live)) + 1] if n > 0}
    return sorted(there.items(), key=lambda entry: (-entry[1], entry[0]))


# %% slices leave their end out
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live))]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (-entry[1], entry[0]))


# %% last moment at which the peak is in use
def alive_at_peak(events):
    there, best, most = {}, [], 0
    for name, nbytes in events:
        there[name] = there.get(name, 0) + nbytes
        if sum(there.values()) >= most:
            most = sum(there.values())
            best = [(k, n) for k, n in there.items() if n]
    return sorted(best, key=lambda entry: (-entry[1], entry[0]))


# %% smallest first
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: entry[1])


# %% in the order in which they were taken
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        if nbytes < 0:
            del there[name]
        else:
            there[name] = nbytes
    return list(there.items())


# %% in the order of their names
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: entry[1], reverse=True)


# %% two have the same size
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (entry[1], entry[0]), reverse=True)
