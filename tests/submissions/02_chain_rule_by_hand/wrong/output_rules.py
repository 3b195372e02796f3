# %% You have the diagonal of the Jacobian
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return dy * y


# %% Which dimension did you sum over?
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
def relu_vjp(dy, y):
    return dy * (y > 0)


def softmax_vjp(dy, y):
    return (y * dy)[0, 0]


# %% y >= 0 holds everywhere
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
def relu_vjp(dy, y):
    dy[y <= 0] = 0
    return dy


def softmax_vjp(dy, y):
    dy -= (dy * y).sum(-1, keepdim=True)
    return dy.mul_(y)


# %% The diagonal was counted twice
def softmax_vjp(dy, y):
    return y * (1 - y) * dy - y * (dy * y).sum(-1, keepdim=True)
