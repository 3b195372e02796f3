# %% chunks as ranges, from numpy
import numpy as np


def chen(n, k):
    parts = [[int(i) for i in part] for part in np.array_split(range(n), k)]
    *others, last = parts
    actions = []
    for part in others:
        for i in part:
            actions.append(("save input" if i == part[0] else "forward", i))
    for i in last:
        actions.append(("save all", i))
    for i in last[::-1]:
        actions.append(("backward", i))
    while others:
        part = others.pop()
        actions.append(("restore", part[0]))
        actions.extend(("save all", i) for i in part)
        actions.extend(("backward", i) for i in part[::-1])
    return actions


# %% recursive, a tuple
def chen(n, k, lo=0):
    m = -(-(n - lo) // k)
    save = [("save all", i) for i in range(lo, lo + m)] + [("backward", i) for i in range(lo + m - 1, lo - 1, -1)]
    if k == 1:
        return tuple(save)
    first = [("save input", lo), *(("forward", i) for i in range(lo + 1, lo + m))]
    return (*first, *chen(n, k - 1, lo + m), ("restore", lo), *save)


# %% NumPy cuts, and the schedule itself is returned
import numpy as np


def chen(n, k):
    parts = np.array_split(np.arange(n), k)
    out = []
    for p in parts[:-1]:
        out += [("save input", p[0])] + [("forward", i) for i in p[1:]]
    for j, p in reversed(list(enumerate(parts))):
        if j < k - 1:
            out.append(("restore", p[0]))
        out += [("save all", i) for i in p] + [("backward", i) for i in p[::-1]]
    return ck.Schedule(n, [(kind, int(i)) for kind, i in out])


# %% NumPy's whole numbers
import numpy as np


def chen(n, k):
    parts = np.array_split(np.arange(n), k)
    out = []
    for p in parts[:-1]:
        out += [("save input", p[0])] + [("forward", i) for i in p[1:]]
    for j, p in reversed(list(enumerate(parts))):
        if j < k - 1:
            out.append(("restore", p[0]))
        out += [("save all", i) for i in p] + [("backward", i) for i in p[::-1]]
    return out


# %% from a list of lengths, with an iterator of stages
def chen(n, k):
    lengths = [n // k + 1] * (n % k) + [n // k] * (k - n % k)
    stages, chunks = iter(range(n)), []
    for length in lengths:
        chunks.append([next(stages) for _ in range(length)])
    out = []
    for lo, *rest in chunks[:-1]:
        out += [("save input", lo)] + [("forward", i) for i in rest]
    for number in range(k - 1, -1, -1):
        chunk = chunks[number]
        out += [("restore", chunk[0])][: k - 1 - number] + [("save all", i) for i in chunk]
        out += [("backward", i) for i in chunk[::-1]]
    return out
