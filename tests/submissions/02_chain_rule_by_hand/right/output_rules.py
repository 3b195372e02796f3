# %% where, and einsum
def relu_vjp(dy, y):
    return torch.where(y > 0, dy, torch.zeros_like(dy))


def softmax_vjp(dy, y):
    along = torch.einsum("...k,...k->...", dy, y)
    return dy * y - along[..., None] * y


# %% the whole Jacobian of every row
def relu_vjp(dy, y):
    return dy * y.sign()


def softmax_vjp(dy, y):
    jacobian = torch.diag_embed(y) - y.unsqueeze(-1) @ y.unsqueeze(-2)
    return torch.matmul(jacobian, dy.unsqueeze(-1)).squeeze(-1)


# %% with the book's library
relu_vjp, softmax_vjp = ck.vjp.relu_vjp, ck.vjp.softmax_vjp


# %% with where and einsum
def relu_vjp(dy, y):
    return torch.where(y > 0, dy, torch.zeros_like(dy))


def softmax_vjp(dy, y):
    inner = torch.einsum("...k,...k->...", dy, y)
    return torch.addcmul(y * dy, y, inner.unsqueeze(-1), value=-1)
