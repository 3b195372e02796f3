# %% Pascal's triangle and the recurrence, no binomials
def beta(s, t):
    row = [1] * (t + 1)
    for _ in range(s):
        for i in range(1, t + 1):
            row[i] += row[i - 1]
    return row[t]


def extra_forwards(l, s):
    @cache
    def best(length, slots):
        if length == 1:
            return 0
        if slots == 1:
            return length * (length - 1) // 2
        return min(k + best(length - k, slots - 1) + best(k, slots) for k in range(1, length))

    return best(l, s)


# %% the sum over repeats
from math import factorial


def beta(s, t):
    return factorial(s + t) // (factorial(s) * factorial(t))


def extra_forwards(l, s):
    total, r = 0, 0
    while beta(s, r) < l:
        total += l - beta(s, r)
        r += 1
    return total


# %% the first r that reaches beyond: it makes no difference
def extra_forwards(l, s):
    r = next(r for r in range(400) if comb(s + r, s) > l)
    return r * l - comb(s + r, s + 1)


# %% a table from the bottom up
def beta(s, t):
    table = [[1] * (t + 1) for _ in range(s + 1)]
    for slots in range(1, s + 1):
        for repeats in range(1, t + 1):
            table[slots][repeats] = table[slots - 1][repeats] + table[slots][repeats - 1]
    return table[s][t]


def extra_forwards(l, s):
    t = [length * (length - 1) // 2 for length in range(l + 1)]
    for _ in range(min(s, l) - 1):
        more = [0, 0]
        for length in range(2, l + 1):
            more.append(min(k + t[length - k] + more[k] for k in range(1, length)))
        t = more if l > 1 else t
    return t[l]
