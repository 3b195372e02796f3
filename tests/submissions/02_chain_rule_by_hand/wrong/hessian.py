# %% differentiate once more
# breaks: from a tensor to a scalar tensor
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return g * v


def predict_units(activation, layers):
    return 1 + {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] * layers


# %% v was forgotten
# breaks: are tensors of the same shape
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)[0]


def predict_units(activation, layers):
    return 1 + {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] * layers


# %% BEFORE the second gradient
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)[0] * v


def predict_units(activation, layers):
    return 1 + {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] * layers


# %% The first gradient gets one with create_graph=True
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x)
    return torch.autograd.grad((g * v).sum(), x)[0]


def predict_units(activation, layers):
    return 1 + {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] * layers


# %% holds for ReLU and GELU
# breaks: is `"relu"`, `"gelu"`
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


def predict_units(activation, layers):
    return 1 + (4 if activation == "gelu" else 2) * layers


# %% The input was forgotten
# breaks: The input counts as one
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


def predict_units(activation, layers):
    return {"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] * layers


# %% because x requires no gradient
# breaks: does not require a gradient
def hvp(loss, x, v):
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


# %% nothing behind it may cut it off
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g.detach() * v).sum(), x)[0]


# %% use it in both places
def hvp(loss, x, v):
    y = loss(x.clone().requires_grad_())
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)[0]


# %% Hv of a polynomial, Hv of a network: Hv came back flat
# breaks: the result has that shape as well
def hvp(loss, x, v):
    n = x.numel()
    return torch.autograd.functional.hessian(loss, x).reshape(n, n) @ v.flatten()


# %% Hv of a polynomial, Hv of a network: x and v may have any shape
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad(torch.dot(g, v), x)[0]


# %% Hv of a polynomial, Hv of a network: x and v may have any shape
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad(g @ v, x)[0]


# %% Take the gradient of ONE
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad(g * v, x)[0]


# %% take its first entry
def hvp(loss, x, v):
    x.requires_grad_()
    (g,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return torch.autograd.grad((g * v).sum(), x)


# %% That is g + Hv
def hvp(loss, x, v):
    x.requires_grad_()
    loss(x).backward(create_graph=True)
    (x.grad * v).sum().backward()
    return x.grad


# %% and a whole H must become a matrix
def hvp(loss, x, v):
    return torch.autograd.functional.hessian(loss, x) @ v


# %% Hv of a network: 'left a gradient in
# breaks: get no gradient
def hvp(loss, x, v):
    x = x.clone().requires_grad_()
    loss(x).backward(create_graph=True)
    g, x.grad = x.grad, None
    (g * v).sum().backward()
    return x.grad


# %% units: 
# breaks: Weights and tensors with a single number do not count
def predict_units(activation, layers):
    return 1 + ({"relu": 2, "gelu": 4, "tanh": 3, "sigmoid": 3}[activation] + 1) * layers
