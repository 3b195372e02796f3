# %% one cell may win several
# breaks: its gradients add up
def max_pool_vjp(dy, indices, shape):
    dx = torch.zeros(shape).flatten(2)
    dx.scatter_(2, indices.flatten(2), dy.flatten(2))
    return dx.view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% not of the whole batch
# breaks: starts again in each channel
def max_pool_vjp(dy, indices, shape):
    dx = torch.zeros(shape)
    dx.view(-1).scatter_add_(0, indices.reshape(-1), dy.reshape(-1))
    return dx


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% two terms of equation 5 are missing
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    return dy * w * rstd, (dy * (y - b) / w).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% w is missing
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat = y - b
    dx = rstd * (dy - dy.mean(-1, keepdim=True) - x_hat * (dy * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% in all dimensions in front
# breaks: Every row uses the same `w` and `b`
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).sum(0), dy.sum(0)


# %% rstd is missing
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True)
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% b was not taken off
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = y / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% equation 5 is about g, not dy
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% w was multiplied in at the end
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy
    dx = w * rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% Sums were taken over the row
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.sum(-1, keepdim=True) - x_hat * (g * x_hat).sum(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% The means went over several rows
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean() - x_hat * (g * x_hat).mean())
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dx was divided by rstd
# breaks: 1 divided by the standard deviation
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True)) / rstd
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dw and db are swapped
# breaks: have the shape (D,)
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, dy.flatten(0, -2).sum(0), (dy * x_hat).flatten(0, -2).sum(0)


# %% dx of LayerNorm, dw and db of LayerNorm: y was taken for x̂
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = y, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dw and db of LayerNorm: Three tensors are asked for
def max_pool_vjp(dy, indices, shape):
    return torch.zeros(shape).flatten(2).scatter_add(2, indices.flatten(2), dy.flatten(2)).view(shape)


def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx


# %% dx of LayerNorm, dw and db of LayerNorm: returned None. Is a `return` missing?
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat = (y - b) / w


# %% windows side by side, windows that overlap: A row of the image has W cells
# breaks: row by row
def max_pool_vjp(dy, indices, shape):
    dx = torch.zeros(shape)
    for n in range(shape[0]):
        for c in range(shape[1]):
            for g, i in zip(dy[n, c].flatten(), indices[n, c].flatten().tolist()):
                dx[n, c, i // shape[2], i % shape[2]] += g
    return dx


# %% dw and db of LayerNorm: dw has a factor w too many
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (g * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dw and db have a factor w too many
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (g * x_hat).flatten(0, -2).sum(0), g.flatten(0, -2).sum(0)


# %% The means went over several rows
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(0, keepdim=True) - x_hat * (g * x_hat).mean(0, keepdim=True))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dx of LayerNorm, dw and db of LayerNorm: keepdim=True is missing
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1) - x_hat * (g * x_hat).mean(-1))
    return dx, (dy * x_hat).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0)


# %% dw and db of LayerNorm: 
# breaks: There is at least one dimension before the last
def layer_norm_vjp(dy, y, rstd, w, b):
    x_hat, g = (y - b) / w, dy * w
    dx = rstd * (g - g.mean(-1, keepdim=True) - x_hat * (g * x_hat).mean(-1, keepdim=True))
    return dx, (dy * x_hat).sum((0, 1)), dy.sum((0, 1))


# %% windows that overlap: shape
# breaks: the shape of `x` and of the result
def max_pool_vjp(dy, indices, shape):
    n, c, h, w = indices.shape
    side = 2 * h, 2 * w
    cells = dy.new_zeros(n, c, side[0] * side[1])
    return cells.scatter_add(2, indices.flatten(2), dy.flatten(2)).reshape(n, c, *side)


# %% values differ
# breaks: `dy` and `indices` have the shape
def max_pool_vjp(dy, indices, shape):
    cells = dy.new_zeros(shape[0], 1, shape[2] * shape[3])
    for channel in range(shape[1]):
        cells[:, 0].scatter_add_(1, indices[:, channel].flatten(1), dy[:, channel].flatten(1))
    return cells.reshape(shape[0], 1, *shape[2:]).expand(shape)
