# %% And its stages run twice, which they need not
chen = broken


# %% Spread the rest
# breaks: The lengths of the chunks differ by at most one
def chen(n, k):
    edges = [i * (n // k) for i in range(k)] + [n]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% The stages of the last chunk run twice
# breaks: The stages of the last chunk run once
def chen(n, k):
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] + [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% longer chunks come first
# breaks: Longer chunks come first
def chen(n, k):
    edges = [round(i * n / k) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% leave the last one what is left
def chen(n, k):
    edges = [*range(0, n, -(-n // k)), n]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% nothing can be restored
# breaks: The list is a valid schedule of n stages
def chen(n, k):
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = [("forward", i) for i in range(edges[-2])]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% that is plain autograd
def chen(n, k):
    return [("save all", i) for i in range(n)] + [("backward", i) for i in reversed(range(n))]


# %% must be reversed first
def chen(n, k):
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in range(lo, hi)]
    return actions


# %% The lengths are right, their order is not
def chen(n, k):
    edges = [i * n // k for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% k = 1
def chen(n, k):
    m, more = divmod(n, k)
    edges = [0]
    for i in range(k):
        edges.append(edges[-1] + m + (i < more))
    assert k > 1
    parts = list(pairwise(edges))
    actions = []
    for lo, hi in parts[:-1]:
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(parts):
        if hi < n:
            actions.append(("restore", lo))
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% a chunk of its own
def chen(n, k):
    m = n // k
    edges = [*range(0, n, m), n]
    parts = list(pairwise(edges))
    actions = []
    for lo, hi in parts[:-1]:
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(parts):
        if hi < n:
            actions.append(("restore", lo))
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% The first chunk has the whole rest
def chen(n, k):
    m, more = divmod(n, k)
    edges = [0]
    for i in range(k):
        edges.append(edges[-1] + m + (i == 0) * more)
    parts = list(pairwise(edges))
    actions = []
    for lo, hi in parts[:-1]:
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(parts):
        if hi < n:
            actions.append(("restore", lo))
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% Every stage saves its input
# breaks: the input of each is a checkpoint
def chen(n, k):
    m, more = divmod(n, k)
    edges = [0]
    for i in range(k):
        edges.append(edges[-1] + m + (i < more))
    parts = list(pairwise(edges))
    actions = []
    for lo, hi in parts[:-1]:
        actions += [("save input", lo)] + [("save input", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(parts):
        if hi < n:
            actions.append(("restore", lo))
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% k is the number of chunks
# breaks: There are k chunks
def chen(n, k):
    m, more = divmod(n, -(-n // k))
    edges = [0]
    for i in range(-(-n // k)):
        edges.append(edges[-1] + m + (i < more))
    parts = list(pairwise(edges))
    actions = []
    for lo, hi in parts[:-1]:
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(parts):
        if hi < n:
            actions.append(("restore", lo))
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% The lengths are right, their order is not
def chen(n, k):
    edges = [-(-i * n // k) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("restore", lo)] if hi < n else []
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% that is the other reading
# breaks: Each chunk is saved while it is reversed
def chen(n, k):
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        current = hi == n
        for stage in reversed(range(lo, hi)):
            if not current:
                actions.append(("restore", lo))
            current = False
            actions += [("save input" if i == lo else "forward", i) for i in range(lo, stage)]
            actions += [("save all", stage), ("backward", stage)]
    return actions


# %% k divides n: k = n: error
def chen(n, k):
    """With k = n there is no stage between two checkpoints, and this forgets the chunks of one stage."""
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        if hi - lo > 1:
            actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        if hi < n:
            actions += [("restore", lo)]
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions


# %% no value is current
def chen(n, k):
    length, longer = divmod(n, k)
    edges = [i * length + min(i, longer) for i in range(k + 1)]
    actions = []
    for lo, hi in pairwise(edges[:-1]):
        actions += [("save input", lo)] + [("forward", i) for i in range(lo + 1, hi)]
    for lo, hi in reversed(list(pairwise(edges))):
        actions += [("save all", i) for i in range(lo, hi)]
        actions += [("backward", i) for i in reversed(range(lo, hi))]
    return actions
