# %% here it is one rank's contribution
parallel_mlp = broken_mlp


# %% add it behind the sum
# breaks: `bias` is added once
def parallel_mlp(x, a, b, bias):
    def add(t):
        t = t.clone()
        dist.all_reduce(t)
        return t

    x = border(lambda t: t.view_as(t), add)(x)
    return border(add, lambda t: t.view_as(t))(F.gelu(x @ a.T) @ b.T + bias)


# %% here it is one rank's contribution
def parallel_mlp(x, a, b, bias):
    y = F.gelu(x @ a.T) @ b.T
    dist.all_reduce(y)
    return y + bias


# %% its gradient is divided, too
def parallel_mlp(x, a, b, bias):
    def add(t):
        t = t.clone()
        dist.all_reduce(t)
        return t

    x = border(lambda t: t.view_as(t), add)(x)
    return border(add, lambda t: t.view_as(t))(F.gelu(x @ a.T) @ b.T + bias / dist.get_world_size())


# %% Summed again, it is twice too large
def parallel_mlp(x, a, b, bias):
    def add(t):
        t = t.clone()
        dist.all_reduce(t)
        return t

    x = border(lambda t: t.view_as(t), add)(x)
    return border(add, add)(F.gelu(x @ a.T) @ b.T) + bias


# %% y is this rank's part only
# breaks: this rank's K rows
def parallel_mlp(x, a, b, bias):
    def add(t):
        t = t.clone()
        dist.all_reduce(t)
        return t

    return F.gelu(border(lambda t: t.view_as(t), add)(x) @ a.T) @ b.T + bias


# %% Only rank 0 uses the bias
# breaks: and not only on one rank
def parallel_mlp(x, a, b, bias):
    def add(t):
        t = t.clone()
        dist.all_reduce(t)
        return t

    y = F.gelu(border(lambda t: t.view_as(t), add)(x) @ a.T) @ b.T
    if dist.get_rank() == 0:
        y = y + bias
    return border(add, lambda t: t.view_as(t))(y)


# %% gradient of x, gradients of a and b, gradient of bias: returned None. Is a `return` missing?
def parallel_mlp(x, a, b, bias):
    y = F.gelu(x @ a.T) @ b.T
    dist.all_reduce(y)
    y = y + bias


# %% The two borders have changed places
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), add), border(add, lambda x: x.view_as(x))
    return into(F.gelu(out(x) @ a.T) @ b.T) + bias


# %% nothing is summed between the two products
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), add), border(add, lambda x: x.view_as(x))
    return F.gelu(out(into(x) @ a.T)) @ b.T + bias


# %% gradients of a and b: a and b are this rank's own
# breaks: this rank's own part
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), add), border(add, lambda x: x.view_as(x))
    return out(F.gelu(into(x) @ into(a).T) @ into(b).T) + bias


# %% gradient of bias: Behind the sum dy is the same
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), add), border(add, lambda x: x.view_as(x))
    return out(F.gelu(into(x) @ a.T) @ b.T) + into(bias)


# %% but bias's gradient cancels
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), add), border(add, lambda x: x.view_as(x))
    return out(F.gelu(into(x) @ a.T) @ b.T + bias) - (dist.get_world_size() - 1) * bias


# %% gradient of x: The other way round
# breaks: The gradient of `x` is the whole one
def parallel_mlp(x, a, b, bias):
    from torch.distributed.nn.functional import all_reduce

    return all_reduce(F.gelu(x @ a.T) @ b.T) + bias


# %% a rank waited for another in vain
def parallel_mlp(x, a, b, bias):
    y = F.gelu(x @ a.T) @ b.T
    if dist.get_rank() == 0:
        dist.all_reduce(y)
    return y + bias


# %% Collectives work in place and return None
def parallel_mlp(x, a, b, bias):
    y = dist.all_reduce(F.gelu(x @ a.T) @ b.T)
    return y + bias


# %% does a backward return None, as all_reduce does
def parallel_mlp(x, a, b, bias):
    def add(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    into, out = border(lambda x: x.view_as(x), dist.all_reduce), border(add, lambda x: x.view_as(x))
    return out(F.gelu(into(x) @ a.T) @ b.T) + bias
