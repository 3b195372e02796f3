# %% backwards from the peak: what is taken and not given back in between
def alive_at_peak(events):
    totals, total = [], 0
    for _, nbytes in events:
        total += nbytes
        totals.append(total)
    given_back, found = set(), []
    for name, nbytes in reversed(events[: totals.index(max(totals)) + 1]):
        if nbytes < 0:
            given_back.add(name)
        elif name in given_back:
            given_back.discard(name)
        else:
            found.append([name, nbytes])
    found.sort()
    found.sort(key=lambda entry: entry[1], reverse=True)
    return found


# %% a snapshot at every new maximum
def alive_at_peak(events):
    there, best, most = {}, {}, -1
    for name, nbytes in events:
        there[name] = there.get(name, 0) + nbytes
        if not there[name]:
            del there[name]
        if sum(there.values()) > most:
            most, best = sum(there.values()), dict(there)
    return sorted(best.items(), key=lambda e: (-e[1], e[0]))


# %% a stack of snapshots, as a tuple of tuples
def alive_at_peak(events):
    states = [{}]
    for name, nbytes in events:
        state = {n: size for n, size in states[-1].items() if n != name}
        states.append(state | ({name: nbytes} if nbytes > 0 else {}))
    at = max(states, key=lambda state: sum(state.values()))
    return tuple(sorted(at.items(), key=lambda pair: (-pair[1], pair[0])))
