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
