# %% recursive, from the inside
def chain_grads(fs, dfs, x):
    if not fs:
        return []
    a = fs[0](x)
    rest = chain_grads(fs[1:], dfs[1:], a)
    behind = rest[0] if rest else 1
    return [dfs[0](x) * behind, *rest]


# %% a running product of a tensor
def chain_grads(fs, dfs, x):
    slopes = []
    for i, df in enumerate(dfs):
        slopes.append(df(x))
        if i + 1 < len(fs):
            x = fs[i](x)  # the last output is not needed
    return tuple(torch.stack(slopes).flip(0).cumprod(0).flip(0))


# %% a stack of gradients
def chain_grads(fs, dfs, x):
    from itertools import accumulate

    inputs = list(accumulate(fs[:-1], lambda a, f: f(a), initial=x))
    slopes = [df(a) for df, a in zip(dfs, inputs)]
    return torch.stack(list(accumulate(reversed(slopes), torch.mul))[::-1])
