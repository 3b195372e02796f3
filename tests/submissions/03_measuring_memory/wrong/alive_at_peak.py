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
# breaks: is not in use
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {name: n for name, n in events[: live.index(max(live)) + 1] if n > 0}
    return sorted(there.items(), key=lambda entry: (-entry[1], entry[0]))


# %% slices leave their end out
# breaks: immediately after the event that reaches it
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live))]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (-entry[1], entry[0]))


# %% last moment at which the peak is in use
# breaks: the list describes the first time
def alive_at_peak(events):
    there, best, most = {}, [], 0
    for name, nbytes in events:
        there[name] = there.get(name, 0) + nbytes
        if sum(there.values()) >= most:
            most = sum(there.values())
            best = [(k, n) for k, n in there.items() if n]
    return sorted(best, key=lambda entry: (-entry[1], entry[0]))


# %% smallest first
# breaks: The largest comes first
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
# breaks: are in alphabetical order
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (entry[1], entry[0]), reverse=True)


# %% given back and then taken again, before the peak, is missing
# breaks: unless it has been allocated again
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        if nbytes > 0:
            there.setdefault(name, nbytes)
        else:
            there[name] = 0
    return sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (-entry[1], entry[0]))


# %% that of the first time
# breaks: may then have a different size
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    sizes, there = {}, set()
    for name, nbytes in events[: live.index(max(live)) + 1]:
        if nbytes > 0:
            sizes.setdefault(name, nbytes)
            there.add(name)
        else:
            there.remove(name)
    return sorted(((name, sizes[name]) for name in there), key=lambda entry: (-entry[1], entry[0]))


# %% that of the last time
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    sizes, there = {name: n for name, n in events if n > 0}, set()
    for name, nbytes in events[: live.index(max(live)) + 1]:
        (there.add if nbytes > 0 else there.remove)(name)
    return sorted(((name, sizes[name]) for name in there), key=lambda entry: (-entry[1], entry[0]))


# %% with 0 bytes
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted(there.items(), key=lambda entry: (-entry[1], entry[0]))


# %% a negative event takes its name out
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    taken = [event for event in events[: live.index(max(live)) + 1] if event[1] > 0]
    return sorted(taken, key=lambda entry: (-entry[1], entry[0]))


# %% returned names alone, expected a list of (name, nbytes)
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    return sorted((name for name, n in there.items() if n), key=lambda name: (-there[name], name))


# %% Is a `return` missing?
def alive_at_peak(events):
    live = list(accumulate(n for _, n in events))
    there = {}
    for name, nbytes in events[: live.index(max(live)) + 1]:
        there[name] = there.get(name, 0) + nbytes
    sorted(((k, n) for k, n in there.items() if n), key=lambda entry: (-entry[1], entry[0]))


# %% is not right
# breaks: immediately after the event that reaches it
def alive_at_peak(events):
    there, best, most = {}, {}, 0
    for name, nbytes in events:
        there[name] = there.get(name, 0) + nbytes
        if sum(there.values()) >= most and len(there) > 1:
            most, best = sum(there.values()), dict(there)
    return sorted([e for e in best.items() if e[1]], key=lambda e: (-e[1], e[0]))
