# %% You have the diagonal of the Jacobian
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return dy * y


# %% Which dimension did you sum over?
# breaks: each row of its output
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return y * (dy - (dy * y).sum())


# %% That is sigmoid's derivative
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return y * (1 - y) * dy


# %% expected (
# breaks: has the shape of `y`
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return (y * dy)[0, 0]


# %% y >= 0 holds everywhere
# breaks: take its derivative to be 0
def relu_vjp(dy, y):
    return dy * (y >= 0)


def softmax_vjp(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdim=True))


# %% a VJP maps dy to dx
def relu_vjp(dy, y):
    return (y > 0).float()


def softmax_vjp(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdim=True))


# %% however many are in front
# breaks: There may be any number of dimensions
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return y * (dy - (dy * y).sum(1, keepdim=True))


# %% The slope of ReLU is 1
def relu_vjp(dy, y):
    return dy * y


def softmax_vjp(dy, y):
    return dy


# %% keepdim=True is missing
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return y * (dy - (dy * y).sum(-1))


# %% Here y multiplies dy alone
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return dy * y - (dy * y).sum(-1, keepdim=True)


# %% relu, softmax: dy was changed in place
# breaks: is not changed
# breaks: does not change any tensor in place
def relu_vjp(dy, y):
    dy[y <= 0] = 0
    return dy


def softmax_vjp(dy, y):
    dy -= (dy * y).sum(-1, keepdim=True)
    return dy.mul_(y)


# %% The diagonal was counted twice
def softmax_vjp(dy, y):
    return y * (1 - y) * dy - y * (dy * y).sum(-1, keepdim=True)


# %% softmax_vjp has changed its argument `y`
# breaks: does not change any tensor in place
def softmax_vjp(dy, y):
    y *= dy - (dy * y).sum(-1, keepdim=True)
    return y


# %% softmax: entry 1: 
# breaks: or none
def softmax_vjp(dy, y):
    rows, d_rows = y.flatten(0, -2), dy.flatten(0, -2)
    dx = torch.stack([r * (d - d @ r) for d, r in zip(d_rows, rows)])
    return dx.reshape(y.shape)


# %% relu: entry 1: 
# breaks: or none
def relu_vjp(dy, y):
    batch, *_, last = y.shape if y.ndim > 1 else (1, 1)
    return (dy.reshape(batch, -1, last) * (y.reshape(batch, -1, last) > 0)).reshape(y.shape[:1] + y.shape[1:-1] + (last,))


# %% as you found it
# breaks: torch's settings are the same as before
def softmax_vjp(dy, y):
    torch.set_grad_enabled(False)
    return y * (dy - (dy * y).sum(-1, keepdim=True))
