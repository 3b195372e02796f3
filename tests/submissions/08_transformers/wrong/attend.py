# %% A second Q, K or V is kept
def attend(q, k, v, mask, p):
    scores = (q / q.shape[-1] ** 0.5) @ k.mT + mask
    y = scores.softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% masked_fill keeps its mask
# breaks: It keeps nothing else
def attend(q, k, v, mask, p):
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(mask == float("-inf"), float("-inf"))
    y = scores.softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% in the activation's dtype
def attend(q, k, v, mask, p):
    scores = q @ k.mT / q.shape[-1] ** 0.5 + mask
    return F.dropout(scores.softmax(-1), p) @ v


# %% though p is 0
# breaks: neither its mask nor its output is kept
def attend(q, k, v, mask, p):
    scores = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5)
    return torch.native_dropout(scores.softmax(-1), p, True)[0] @ v


# %% not divided by √d
def attend(q, k, v, mask, p):
    y = (q @ k.mT + mask).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% which was not allowed here
# breaks: is not allowed here
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


# %% A second Q, K or V is kept
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


# %% multiplied by √d
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** 0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% divided by √s
def attend(q, k, v, mask, p):
    scores = q @ k.mT / q.shape[1] ** 0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% The mask is added to the scores: it is 0
# breaks: and -inf where it may not
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 * mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% in front of softmax
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    y = scores.softmax(-1) + mask
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% A tensor of one number is kept
def attend(q, k, v, mask, p):
    scores = q @ k.mT / torch.sqrt(torch.tensor(q.shape[-1])) + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% Copies are kept
def attend(q, k, v, mask, p):
    scores = q.contiguous() @ k.contiguous().mT / q.shape[-1] ** 0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% in another dtype than q's
# breaks: have any floating dtype
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    y = scores.float().softmax(-1).to(q.dtype)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% Softmax by hand
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    y = scores.exp() / scores.exp().sum(-1, keepdim=True)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y @ v


# %% The share that is dropped is not p
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, 0.1, True)[0] if p else y
    return y @ v


# %% The product with V is missing
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    return y


# %% Is a `return` missing?
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    y = scores.softmax(-1)
    y = torch.native_dropout(y, p, True)[0] if p else y
    y @ v


# %% it drops probabilities, not scores
def attend(q, k, v, mask, p):
    scores = q @ k.mT * q.shape[-1] ** -0.5 + mask
    scores = torch.native_dropout(scores, p, True)[0] if p else scores
    return scores.softmax(-1) @ v


# %% it drops probabilities, not outputs
def attend(q, k, v, mask, p):
    y = (q @ k.mT * q.shape[-1] ** -0.5 + mask).softmax(-1) @ v
    return torch.native_dropout(y, p, True)[0] if p else y


# %% That is a checkpoint
def attend(q, k, v, mask, p):
    def again(q, k, v, mask):
        y = (q @ k.mT * q.shape[-1] ** -0.5 + mask).softmax(-1)
        return (torch.native_dropout(y, p, True)[0] if p else y) @ v

    return torch.utils.checkpoint.checkpoint(again, q, k, v, mask, use_reentrant=False)


# %% kept with dropout: The dropout's output is not kept
def attend(q, k, v, mask, p):
    w = q @ k.mT * q.shape[-1] ** -0.5
    if p:
        w = torch.native_dropout(w, p, True)[0]
    return (w + mask).softmax(-1) @ v


# %% A second Q, K or V is kept
def attend(q, k, v, mask, p):
    y = (q @ k.mT * q.shape[-1] ** -0.5 + mask).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v.contiguous()


# %% kept with dropout, kept without: Copies are kept: scaling both Q and K
def attend(q, k, v, mask, p):
    half = q.shape[-1] ** -0.25
    y = ((q * half) @ (k * half).mT + mask).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% kept without: A second matrix of s x s is kept
def attend(q, k, v, mask, p):
    y = (q @ k.mT * q.shape[-1] ** -0.5 + mask).log_softmax(-1).exp()
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% values: The mask that was given is not used
def attend(q, k, v, mask, p):
    causal = torch.full_like(mask, float("-inf")).triu(1)
    y = (q @ k.mT * q.shape[-1] ** -0.5 + causal).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% 'the same ones in each call' is not right
# breaks: Each call drops different probabilities
def attend(q, k, v, mask, p):
    torch.manual_seed(0)
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v


# %% 'the same ones in each call' is not right
def attend(q, k, v, mask, p):
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    if p:
        generator = torch.Generator().manual_seed(1)
        keep = torch.rand(y.shape, generator=generator) >= p
        y = y.masked_fill(~keep, 0) / (1 - p)
    return y @ v


# %% from torch's own generator" is not right
def attend(q, k, v, mask, p):
    import random

    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    if p:
        generator = torch.Generator().manual_seed(random.randrange(2**40))
        keep = torch.rand(y.shape, generator=generator) >= p
        y = y.masked_fill(~keep, 0) / (1 - p)
    return y @ v


# %% 'several probabilities together' is not right
# breaks: each on its own
def attend(q, k, v, mask, p):
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    if p:
        keep = torch.rand(y.shape[1:]) >= p
        y = y.masked_fill(~keep, 0) / (1 - p)
    return y @ v


# %% has changed its argument `mask`
# breaks: A function does not change its arguments
def attend(q, k, v, mask, p):
    mask.clamp_(min=-1e4)  # so that no row is all -inf
    y = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(-1)
    return (torch.native_dropout(y, p, True)[0] if p else y) @ v
