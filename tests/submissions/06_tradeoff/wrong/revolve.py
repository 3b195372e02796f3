# %% Halves are not the best cut
# breaks: It has the fewest possible forwards
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        middle = (lo + hi) // 2 if s > 1 else hi - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return climb + reverse(middle, hi, s - 1) + [("restore", lo)] + reverse(lo, middle, s)

    return reverse(0, n, slots)


# %% all slots are free again
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        middle = lo + k
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        less = max(s - 1, 1)
        return climb + reverse(middle, hi, less) + [("restore", lo)] + reverse(lo, middle, less)

    return reverse(0, n, slots)


# %% Too many checkpoints are alive
# breaks: At most slots + 2 activations are alive
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        middle = lo + k
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return climb + reverse(middle, hi, s) + [("restore", lo)] + reverse(lo, middle, s)

    return reverse(0, n, slots)


# %% Only one slot is in use
def revolve(n, slots):
    actions = []
    for last in reversed(range(n)):
        if last < n - 1:
            actions.append(("restore", 0))
        actions += [("save input" if i == 0 else "forward", i) for i in range(last)]
        actions += [("save all", last), ("backward", last)]
    return actions


# %% Equal chunks, one stage at a time
def revolve(n, slots):
    edges = [round(i * n / slots) for i in range(slots + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        for last in reversed(range(lo, hi)):
            if last < n - 1:
                actions.append(("restore", lo))
            actions += [("save input" if i == lo else "forward", i) for i in range(lo, last)]
            actions += [("save all", last), ("backward", last)]
    return actions


# %% that is plain autograd
def revolve(n, slots):
    return [("save all", i) for i in range(n)] + [("backward", i) for i in reversed(range(n))]


# %% After a backward no value is current
# breaks: The list is a valid schedule of n stages
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% What is to be restored must have been saved
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("forward", i) for i in range(lo, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% switched off
def revolve(n, slots):
    return ck.revolve(n, slots).actions


# %% which is not right yet: repair task 4 first
def extra_forwards(l, s):
    return l * (l - 1) // 2


def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% two slots, three or four slots, five or six slots: error: revolve calls
def extra_forwards(l, s):
    raise NotImplementedError


def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% is not defined
del extra_forwards


def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% put @cache above it
def revolve(n, slots):
    def t(l, s):
        if l == 1:
            return 0
        return min(k + t(l - k, s - 1) + t(k, s) for k in range(1, l)) if s else inf

    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + t(l - k, s - 1) + t(k, s))
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% asked for no slot at all
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s))
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% A slot stays empty
# breaks: The chain's input takes the first slot
def revolve(n, slots):
    def cut(l, s):
        if s == 1:
            return l - 1
        return min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s))

    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        mid = lo + cut(hi - lo, s)
        return [
            ("save input", lo),
            *(("forward", i) for i in range(lo + 1, mid)),
            *reverse(mid, hi, s - 1),
            ("restore", lo),
            *reverse(lo, mid, s),
        ]

    return reverse(0, n, max(1, slots - 1))


# %% A slot is used that is not there
def revolve(n, slots):
    def cut(l, s):
        if s == 1:
            return l - 1
        return min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s))

    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        mid = lo + cut(hi - lo, s)
        return [
            ("save input", lo),
            *(("forward", i) for i in range(lo + 1, mid)),
            *reverse(mid, hi, s - 1),
            ("restore", lo),
            *reverse(lo, mid, s),
        ]

    return reverse(0, n, slots + 1)


# %% The parts are exchanged in the sum
def revolve(n, slots):
    def cut(l, s):
        if s == 1:
            return l - 1
        return min(range(1, l), key=lambda k: k + extra_forwards(k, s - 1) + extra_forwards(l - k, s))

    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        mid = lo + cut(hi - lo, s)
        return [
            ("save input", lo),
            *(("forward", i) for i in range(lo + 1, mid)),
            *reverse(mid, hi, s - 1),
            ("restore", lo),
            *reverse(lo, mid, s),
        ]

    return reverse(0, n, slots)


# %% three or four slots: forwards:
def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        middle = lo + max(1, round((hi - lo) ** 0.5)) if s > 1 else hi - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return climb + reverse(middle, hi, s - 1) + [("restore", lo)] + reverse(lo, middle, s)

    return reverse(0, n, slots)


# %% here two save all together
# breaks: only if it is reversed immediately afterwards
def revolve(n, slots):
    @cache
    def best(length, slots):
        if length == 1:
            return 0, 0
        if slots == 0:
            return inf, 0
        return min((k + best(length - k, slots - 1)[0] + best(k, slots)[0], k) for k in range(1, length))

    def reverse(lo, hi, slots):
        if hi - lo <= 2:
            return [("save all", i) for i in range(lo, hi)] + [("backward", i) for i in reversed(range(lo, hi))]
        middle = lo + best(hi - lo, slots)[1]
        advance = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return advance + reverse(middle, hi, slots - 1) + [("restore", lo)] + reverse(lo, middle, slots)

    return reverse(0, n, slots)


# %% Where there are as many slots as stages
# breaks: or more slots than stages
def revolve(n, slots):
    @cache
    def best(length, slots):
        if length == 1:
            return 0, 0
        if slots == 0:
            return inf, 0
        return min((k + best(length - k, slots - 1)[0] + best(k, slots)[0], k) for k in range(1, length))

    def reverse(lo, hi, slots):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        middle = lo + best(hi - lo, slots)[1]
        advance = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return advance + reverse(middle, hi, slots - 1) + [("restore", lo)] + reverse(lo, middle, slots)

    return ([("save all", i) for i in range(0, n)] + [("backward", i) for i in reversed(range(0, n))]
        if n <= slots else reverse(0, n, slots))


# %% one stage, or as many slots as stages: error
# breaks: There may be a single stage
def revolve(n, slots):
    @cache
    def best(length, slots):
        if length == 1:
            return 0, 0
        if slots == 0:
            return inf, 0
        return min((k + best(length - k, slots - 1)[0] + best(k, slots)[0], k) for k in range(1, length))

    def reverse(lo, hi, slots):
        if hi - lo == 2:
            return [("save input", lo), ("save all", lo + 1), ("backward", lo + 1), ("restore", lo), ("save all", lo), ("backward", lo)]
        if hi - lo == 1 and n > 1:
            return [("save all", lo), ("backward", lo)]
        middle = lo + best(hi - lo, slots)[1]
        advance = [("save input", lo)] + [("forward", i) for i in range(lo + 1, middle)]
        return advance + reverse(middle, hi, slots - 1) + [("restore", lo)] + reverse(lo, middle, slots)

    return reverse(0, n, slots)
