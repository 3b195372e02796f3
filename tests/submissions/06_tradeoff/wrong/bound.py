# %% takes the first of the s slots
# breaks: The chain's input takes the first of them
def beta(s, t):
    return comb(s + t + 1, t)


def extra_forwards(l, s):
    r = 0
    while comb(s + 1 + r, r) < l:
        r += 1
    return r * l - (comb(s + 1 + r, s + 2) if r else 0)


# %% Those are all forwards
# breaks: except for the one run for its own backward
def extra_forwards(l, s):
    r = 0
    while comb(s + r, s) < l:
        r += 1
    return l + r * l - (comb(s + r, s + 1) if r else 0)


# %% has a slot more
def extra_forwards(l, s):
    r = 0
    while comb(s + r, s) < l:
        r += 1
    return r * l - (comb(s + r - 1, s) if r else 0)


# %% Many advance less often
def extra_forwards(l, s):
    r = 0
    while comb(s + r, s) < l:
        r += 1
    return r * l


# %% has a repeat less
def extra_forwards(l, s):
    r = 0
    while comb(s + r, s) < l:
        r += 1
    return r * l - comb(s + 1 + r, s + 1)


# %% β(s, 0) = 1
# breaks: It may be 0
def beta(s, t):
    return comb(s + t - 1, s)


# %% Pascal's
def beta(s, t):
    return s * t


# %% switched off
from ckptlib.planning.known_schedules import beta


# %% for one slot, whatever s is
def extra_forwards(l, s):
    return l * (l - 1) // 2


# %% extra_forwards: error: Stopped after 500,000 calls
# breaks: an answer is stopped after 500,000 calls
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l - 1) // 2
    return min(k + extra_forwards(l - k, s - 1) + extra_forwards(k, s) for k in range(1, l))


# %% put @cache above it
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 0:
        return inf
    least = inf
    for k in range(1, l):
        least = min(least, k + extra_forwards(l - k, s - 1) + extra_forwards(k, s))
    return least


# %% does a loop never end
def extra_forwards(l, s):
    r = 0
    while comb(s + r, s) < l:
        r
    return r * l - (comb(s + r, s + 1) if r else 0)


# %% s over t, in Pascal's triangle
def beta(s, t):
    return comb(s, t)


def extra_forwards(l, s):  # noqa: E741
    r = 0
    while beta(s, r) < l:
        r += 1
    return r * l - beta(s + 1, r - 1) if r else 0


# %% all s slots are free again
def beta(s, t):
    return comb(s + t, s)


@cache
def extra_forwards(l, s):  # noqa: E741
    if l == 1:
        return 0
    if s == 0:
        return inf
    return min(k + extra_forwards(l - k, s - 1) + extra_forwards(k, s - 1) for k in range(1, l))


# %% without a slot t is infinite
def beta(s, t):
    return comb(s + t, s)


@cache
def extra_forwards(l, s):  # noqa: E741
    if l == 1:
        return 0
    return min(k + extra_forwards(l - k, s - 1) + extra_forwards(k, s) for k in range(1, l))


# %% all s slots are free again
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l - 1) // 2
    return min(k + extra_forwards(l - k, s - 1) + extra_forwards(k, s - 1) for k in range(1, l))


# %% never runs out of slots
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l - 1) // 2
    return min(k + extra_forwards(l - k, s) + extra_forwards(k, s) for k in range(1, l))


# %% There l − k stages have s − 1 slots
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l - 1) // 2
    return min(k + extra_forwards(l - k, s) + extra_forwards(k, s - 1) for k in range(1, l))


# %% Halves are not the best cut
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l - 1) // 2
    return l // 2 + extra_forwards(l - l // 2, s - 1) + extra_forwards(l // 2, s)


# %% With one slot t is
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 1:
        return l * (l + 1) // 2
    return min(k + extra_forwards(l - k, s - 1) + extra_forwards(k, s) for k in range(1, l))


# %% s + t over s − 1
def beta(s, t):
    return comb(s + t, s - 1)


# %% beta: s to the power t would give
def beta(s, t):
    return s**t


# %% k forwards lead to the checkpoint
@cache
def extra_forwards(l, s):
    if l == 1:
        return 0
    if s == 0:
        return inf
    return min(l - k + extra_forwards(l - k, s - 1) + extra_forwards(k, s) for k in range(1, l))


# %% raised ValueError
# breaks: A chain of one stage needs no extra forwards
def extra_forwards(l, s):
    @cache
    def t(length, slots):
        if slots == 1:
            return length * (length - 1) // 2
        if length == 2:
            return 1
        if length == 1 and slots < s:
            return 0
        return min(k + t(length - k, slots - 1) + (t(k, slots) if k > 1 else 0) for k in range(1, length))

    return t(l, s)


# %% raised IndexError
# breaks: It may be larger than `l`
def extra_forwards(l, s):
    table = [[0] * (l + 1) for _ in range(l + 1)]  # table[slots][length]
    for length in range(2, l + 1):
        table[1][length] = length * (length - 1) // 2
    for slots in range(2, l + 1):
        for length in range(2, l + 1):
            table[slots][length] = min(
                k + table[slots - 1][length - k] + table[slots][k] for k in range(1, length)
            )
    return table[s][l]
