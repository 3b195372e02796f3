# %% a loop, and the closed form
def revolve(n, slots):
    def t(l, s):
        r = 0
        while comb(s + r, s) < l:
            r += 1
        return r * l - (comb(s + r, s + 1) if r else 0)

    actions = []

    def reverse(lo, hi, s):
        while hi - lo > 1:
            l = hi - lo
            k = l - 1 if s == 1 else min(range(l - 1, 0, -1), key=lambda k: k + t(l - k, s - 1) + t(k, s))
            actions.append(("save input", lo))
            actions.extend(("forward", i) for i in range(lo + 1, lo + k))
            reverse(lo + k, hi, s - 1)
            actions.append(("restore", lo))
            hi = lo + k
        actions.extend([("save all", lo), ("backward", lo)])

    reverse(0, n, slots)
    return actions


# %% with the bound's own cut, and ck.Schedule to check
def revolve(n, slots):
    def cut(l, s):
        r = next(r for r in range(100) if comb(s + r, s) >= l)
        low = max(1, l - comb(s - 1 + r, s - 1))  # what is behind may have β(s - 1, r) stages at most
        high = comb(s + r - 1, s)  # and what is in front β(s, r - 1)
        return min(max(low, min(comb(s + r - 2, s) if r > 1 else 1, high)), l - 1)

    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        middle = lo + cut(hi - lo, s)
        climb = [("save input" if i == lo else "forward", i) for i in range(lo, middle)]
        return climb + reverse(middle, hi, s - 1) + [("restore", lo)] + reverse(lo, middle, s)

    return ck.Schedule(n, reverse(0, n, slots)).actions


# %% with a recurrence in extra_forwards whose cache lasts for one call
def extra_forwards(l, s):
    @cache
    def t(l, s):
        if l == 1:
            return 0
        return min(k + t(l - k, s - 1) + t(k, s) for k in range(1, l)) if s else inf

    return t(l, s)


def revolve(n, slots):
    def reverse(lo, hi, s):
        if hi - lo == 1:
            return [("save all", lo), ("backward", lo)]
        l = hi - lo
        k = min(range(1, l), key=lambda k: k + extra_forwards(l - k, s - 1) + extra_forwards(k, s)) if s > 1 else l - 1
        climb = [("save input", lo)] + [("forward", i) for i in range(lo + 1, lo + k)]
        return climb + reverse(lo + k, hi, s - 1) + [("restore", lo)] + reverse(lo, lo + k, s)

    return reverse(0, n, slots)


# %% the schedule itself is returned
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

    return ck.Schedule(n, reverse(0, n, slots))


# %% a stack in place of recursion, a table from the bottom up
def revolve(n, slots):
    t = {(l, 1): l * (l - 1) // 2 for l in range(1, n + 1)}
    cut = {(l, 1): l - 1 for l in range(2, n + 1)}
    for s in range(2, slots + 1):
        for l in range(1, n + 1):
            t[l, s] = 0
            for k in range(1, l):
                cost = k + t[l - k, s - 1] + t[k, s]
                if k == 1 or cost <= t[l, s]:
                    t[l, s], cut[l, s] = cost, k
    actions, todo = [], [(0, n, slots)]
    while todo:
        task = todo.pop()
        if len(task) == 1:
            actions.append(("restore", task[0]))
            continue
        lo, hi, s = task
        if hi - lo == 1:
            actions += [["save all", lo], ["backward", lo]]
            continue
        k = cut[hi - lo, s]
        actions += [("save input" if i == lo else "forward", i) for i in range(lo, lo + k)]
        todo += [(lo, lo + k, s), (lo,), (lo + k, hi, s - 1)]
    return actions
