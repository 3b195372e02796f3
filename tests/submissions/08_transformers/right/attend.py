# %% scores scaled and masked by ops of their own, a mask drawn by hand
def attend(q, k, v, mask, p):
    y = torch.softmax(torch.bmm(q, k.transpose(1, 2)).mul(1 / q.size(-1) ** 0.5).add(mask), dim=2)
    if p > 0:
        keep = torch.rand(y.shape) >= p
        y = y.masked_fill(~keep, 0).div(1 - p)
    return torch.bmm(y, v)


# %% einsum, and the op that CUDA uses
def attend(q, k, v, mask, p):
    scores = torch.einsum("nsd,ntd->nst", q, k) / q.shape[-1] ** 0.5 + mask
    probabilities = torch.nn.functional.softmax(scores, dim=-1)
    dropped = torch.ops.aten.native_dropout(probabilities, p, True)[0] if p else probabilities
    return torch.matmul(dropped, v)


# %% a mask of its own, as booleans
def attend(q, k, v, mask, p):
    y = torch.einsum("nsd,ntd->nst", q, k).mul_(q.shape[-1] ** -0.5).add_(mask).softmax(-1)
    if p:
        y = y.masked_fill(torch.rand_like(y) < p, 0) / (1 - p)
    return torch.einsum("nst,ntd->nsd", y, v)
