# %% A second Q (or K) is kept
def attend(q, k, v, mask, p):
    scores = (q / q.shape[-1] ** 0.5) @ k.mT + mask
    y = scores.softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% masked_fill keeps its mask
def attend(q, k, v, mask, p):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(mask == float("-inf"), float("-inf"))
    y = scores.softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% in the activation's dtype
def attend(q, k, v, mask, p):
    scores = q @ k.mT / q.shape[-1] ** 0.5 + mask
    return F.dropout(scores.softmax(-1), p) @ v


# %% though p is 0
def attend(q, k, v, mask, p):
    scores = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5)
    return torch.native_dropout(scores.softmax(-1), p, True)[0] @ v


# %% not divided by √d
def attend(q, k, v, mask, p):
    y = (q @ k.mT + mask).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% which was not allowed here
def attend(q, k, v, mask, p):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, dropout_p=p).squeeze(0)


# %% extras are still kept
def attend(q, k, v, mask, p):
    q = q * q.shape[-1] ** -0.5
    scores = (q @ k.mT).masked_fill(mask < 0, float("-inf"))
    return F.dropout(scores.softmax(-1), p) @ v


# %% divides what it keeps by 1 - p
def attend(q, k, v, mask, p):
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    if p:
        y = y * (torch.rand(y.shape) > p)
    return y @ v


# %% A second Q (or K) is kept
def attend(q, k, v, mask, p):
    y = (q @ (k / q.shape[-1] ** 0.5).mT + mask).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% Nothing is dropped
def attend(q, k, v, mask, p):
    return (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1) @ v


# %% The share that is dropped is not p
def attend(q, k, v, mask, p):
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return (torch.native_dropout(y, 1 - p, True)[0] if p else y) @ v


# %% The share that is dropped is not p
def attend(q, k, v, mask, p):
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return (y.masked_fill(torch.rand_like(y) > p, 0).div(1 - p) if p else y) @ v
