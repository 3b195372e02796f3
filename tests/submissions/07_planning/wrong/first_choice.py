# %% Both bugs are still there
first_choice = broken


# %% charged to the wrong part
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    for u in range(s + 1, t + 1):
        ways.append(sum(f[s:u]) + best(u, t, m) + best(s, u - 1, m - x[u]))
    return min(ways)


# %% One forward too many
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    for u in range(s + 1, t + 1):
        ways.append(sum(f[s : u + 1]) + best(u, t, m - x[u]) + best(s, u - 1, m))
    return min(ways)


# %% charged to both parts
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    for u in range(s + 1, t + 1):
        left = m - x[u]
        ways.append(sum(f[s:u]) + best(u, t, left) + best(s, u - 1, left))
    return min(ways)


# %% takes no memory here
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% A checkpoint at t, the last stage, was not tried
# breaks: the last stage, both included
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t)]
    return min(ways)


# %% The backward of s is missing
# breaks: the times that each stage takes
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s])]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% nothing fits: A single stage takes memory
def first_choice(best, s, t, m, f, b, x, xbar):
    if s == t:
        return f[s] + b[s]
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% nothing fits: entry 0: -1 was returned where m
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways) if min(ways) < inf else -1


# %% not enough: expected inf
# breaks: or `inf` if every way needs more
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways) if min(ways) < inf else None


# %% One forward too few
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s : u - 1]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% not x[u - 1]
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u - 1]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% has it already
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) + b[s] for u in range(s + 1, t + 1)]
    return min(ways)


# %% not x[s] as well
# breaks: besides the input of stage s
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s] - x[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% u goes from s + 1 to t
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s, t + 1)]
    return min(ways)


# %% only checkpoints were tried
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [inf]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% with >= and not with >
# breaks: if m is at least as many bytes
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s] if m > xbar[s] else inf]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1) if m > x[u]]
    return min(ways)


# %% expected one number: the time alone
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways), s


# %% Is a `return` missing?
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    min(ways)


# %% You solved the shorter chains yourself
# breaks: do not solve them yourself
def first_choice(best, s, t, m, f, b, x, xbar):
    @cache
    def time(s, t, m):
        if m < 0:
            return inf
        if s > t:
            return 0
        ways = [f[s] + time(s + 1, t, m - xbar[s]) + b[s]]
        return min(ways + [sum(f[s:u]) + time(u, t, m - x[u]) + time(s, u - 1, m) for u in range(s + 1, t + 1)])

    return time(s, t, m)


# %% A checkpoint at s + 1 was not tried
# breaks: which is any stage from s + 1 to t
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 2, t + 1)]
    return min(ways)


# %% to keep everything is best: The output of s is in xbar[s] already
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s] - x[s + 1]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% a single stage: A single stage keeps everything, and fits
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s] - x[s + 1]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% to keep everything is best, a checkpoint is best: The output of s is a part of xbar[s]
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s] + x[s + 1]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% to keep everything is best, a checkpoint is best: To keep everything of s takes xbar[s], not only its output
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - x[s + 1]) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% s + 1 to t have xbar[s] bytes less
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% the right part begins at the checkpoint
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + best(u + 1, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% their times add up
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    ways += [sum(f[s:u]) + max(best(u, t, m - x[u]), best(s, u - 1, m)) for u in range(s + 1, t + 1)]
    return min(ways)


# %% but a checkpoint takes less
def first_choice(best, s, t, m, f, b, x, xbar):
    kept = f[s] + best(s + 1, t, m - xbar[s]) + b[s]
    if kept < inf:
        return kept
    ways = [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways, default=inf)


# %% try every u
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, m - xbar[s]) + b[s]]
    if s < t:
        ways.append(f[s] + best(s + 1, t, m - x[s + 1]) + best(s, s, m))
    return min(ways)


# %% expected inf
# breaks: It returns `inf` if m is negative or too small
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[s] + best(s + 1, t, max(0, m - xbar[s])) + b[s]]
    ways += [sum(f[s:u]) + best(u, t, max(0, m - x[u])) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% a single stage
# breaks: They may be the same stage
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [inf]
    if s < t:
        ways.append(f[s] + best(s + 1, t, m - xbar[s]) + b[s])
    ways += [sum(f[s:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)


# %% The times of stages s to t alone
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [f[0] + best(s + 1, t, m - xbar[s]) + b[0]]
    ways += [sum(f[:u]) + best(u, t, m - x[u]) + best(s, u - 1, m) for u in range(s + 1, t + 1)]
    return min(ways)
