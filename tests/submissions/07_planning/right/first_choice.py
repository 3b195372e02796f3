# %% with a running sum, and without asking for what cannot fit
def first_choice(best, s, t, m, f, b, x, xbar):
    least, forwards = inf, 0
    if m >= xbar[s]:
        least = f[s] + b[s] + (best(s + 1, t, m - xbar[s]) if s < t else 0)
    for u in range(s + 1, t + 1):
        forwards += f[u - 1]
        if m >= x[u]:
            least = min(least, forwards + best(s, u - 1, m) + best(u, t, m - x[u]))
    return least


# %% the chapter's own lines
def first_choice(best, s, t, m, f, b, x, xbar):
    ways = [(inf, s)]
    if m >= xbar[s]:
        rest = best(s + 1, t, m - xbar[s]) if s < t else 0
        ways.append((f[s] + rest + b[s], s))
    for u in range(s + 1, t + 1):
        if m >= x[u]:
            right, left = best(u, t, m - x[u]), best(s, u - 1, m)
            ways.append((sum(f[s:u]) + right + left, u))
    return min(ways)[0]


# %% from the last stage to the first, by name
def first_choice(best, s, t, m, f, b, x, xbar):
    least = inf
    for u in reversed(range(s + 1, t + 1)):
        right = best(s=u, t=t, m=m - x[u])
        if right == inf:
            continue
        least = min(least, right + best(s=s, t=u - 1, m=m) + sum(f[i] for i in range(s, u)))
    whole = best(s=s + 1, t=t, m=m - xbar[s])
    return torch.tensor(min(least, whole + f[s] + b[s]))
