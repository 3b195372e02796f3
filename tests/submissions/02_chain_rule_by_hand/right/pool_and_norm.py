# %% max_unpool's cousin index_put, and autograd for the norm
def max_pool_vjp(dy, indices, shape):
    n, c, h, w = shape
    dx = torch.zeros(n * c, h * w, dtype=dy.dtype)
    rows = torch.arange(n * c).repeat_interleave(dy[0, 0].numel())
    dx.index_put_((rows, indices.reshape(-1)), dy.reshape(-1), accumulate=True)
    return dx.view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x = (((y - b) / w) / rstd).detach().requires_grad_()  # the mean does not matter
    w, b = (t.clone().requires_grad_() for t in (w, b))
    mean = x.mean(-1, keepdim=True)
    eps = 1 / rstd**2 - (x - mean).square().mean(-1, keepdim=True).detach()
    y = (x - mean) / ((x - mean).square().mean(-1, keepdim=True) + eps).sqrt() * w + b
    return torch.autograd.grad(y, (x, w, b), dy)


# %% loops, and equation 5 with sums
def max_pool_vjp(dy, indices, shape):
    dx = torch.zeros(shape)
    for n in range(shape[0]):
        for c in range(shape[1]):
            for g, i in zip(dy[n, c].flatten().tolist(), indices[n, c].flatten().tolist()):
                dx[n, c, i // shape[3], i % shape[3]] += g
    return dx


def layer_norm_vjp(dy, y, rstd, w, b):
    D = len(w)
    x_hat, g = (y - b) / w, dy * w
    dx = (D * g - g.sum(-1, keepdim=True) - x_hat * (g * x_hat).sum(-1, keepdim=True)) * rstd / D
    dims = tuple(range(dy.ndim - 1))
    return [dx, (dy * x_hat).sum(dims), dy.sum(dims)]
