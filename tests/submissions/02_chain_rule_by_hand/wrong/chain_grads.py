# %% the last comes first
# breaks: Entry i of the result
def chain_grads(fs, dfs, x):
    inputs = [x]
    for f in fs[:-1]:
        inputs.append(f(inputs[-1]))
    g, grads = 1.0, []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g = g * df(a)
        grads.append(g)
    return grads


# %% taken at its function's OUTPUT
# breaks: takes the *input* of
def chain_grads(fs, dfs, x):
    outputs = []
    for f in fs:
        x = f(x)
        outputs.append(x)
    g, grads = 1.0, []
    for df, y in zip(dfs[::-1], outputs[::-1]):
        g = g * df(y)
        grads.insert(0, g)
    return grads


# %% multiplied by the gradient that arrives
def chain_grads(fs, dfs, x):
    grads = []
    for f, df in zip(fs, dfs):
        grads.append(df(x))
        x = f(x)
    return grads


# %% Backward goes the other way
def chain_grads(fs, dfs, x):
    g, grads = 1.0, []
    for f, df in zip(fs, dfs):
        g = g * df(x)
        grads.append(g)
        x = f(x)
    return grads


# %% That is memoization
# breaks: is called at most once
def chain_grads(fs, dfs, x):
    g, grads = 1.0, []
    for i in reversed(range(len(fs))):
        a = x
        for f in fs[:i]:
            a = f(a)
        g = g * dfs[i](a)
        grads.insert(0, g)
    return grads


# %% a list of n
def chain_grads(fs, dfs, x):
    g = 1.0
    for f, df in zip(fs, dfs):
        g = g * df(x)
        x = f(x)
    return g


# %% Only the first function's input is x
def chain_grads(fs, dfs, x):
    for f in fs:
        f(x)
    g, grads = 1.0, []
    for df in reversed(dfs):
        g = g * df(x)
        grads.insert(0, g)
    return grads


# %% No function was called
# breaks: returns a tensor of the same shape
def chain_grads(fs, dfs, x):
    grads = [df(x) for df in dfs]


# %% returned None. Is a `return` missing?
def chain_grads(fs, dfs, x):
    inputs = [x]
    for f in fs[:-1]:
        inputs.append(f(inputs[-1]))
    g, grads = 1.0, []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g = g * df(a)
        grads.insert(0, g)


# %% it is not asked for
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    grads = [torch.ones_like(x)]
    for df, a in zip(dfs[::-1], inputs[::-1]):
        grads.insert(0, grads[0] * df(a))
    return grads


# %% changes it in place
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    g, grads = torch.ones_like(x), []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g *= df(a)
        grads.insert(0, g)
    return grads


# %% entry 0: shape (), expected (
# breaks: is a tensor of any shape
def chain_grads(fs, dfs, x):
    g, grads = 1.0, []
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g = g * df(a)
        grads.insert(0, g.sum())
    return grads


# %% with respect to the OUTPUT
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    g, grads = torch.ones_like(x), []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        grads.insert(0, g)
        g = g * df(a)
    return grads


# %% do not belong together
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    g, grads = 1.0, []
    for df, a in zip(dfs, inputs[::-1]):
        g = g * df(a)
        grads.insert(0, g)
    return grads


# %% gradients, calls: raised RuntimeError: The size of
# breaks: is a tensor of any shape
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    g, grads = torch.ones(len(x)), []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g = g * df(a)
        grads.insert(0, g)
    return grads


# %% has changed its argument `dfs`
# breaks: does not change any list
def chain_grads(fs, dfs, x):
    inputs = []
    for f in fs:
        inputs.append(x)
        x = f(x)
    g, grads = 1.0, []
    dfs.reverse()
    for df, a in zip(dfs, inputs[::-1]):
        g = g * df(a)
        grads.append(g)
    return grads[::-1]


# %% That is memoization
# breaks: is called at most once
def chain_grads(fs, dfs, x):
    inputs = [x]
    for f in fs[:-1]:
        inputs.append(f(inputs[-1]))
    shape = fs[0](x).shape
    g, grads = torch.ones(shape, dtype=x.dtype), []
    for df, a in zip(dfs[::-1], inputs[::-1]):
        g = g * df(a)
        grads.insert(0, g)
    return grads
