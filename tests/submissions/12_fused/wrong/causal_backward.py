# %% The mask is missing: a query must not see later keys
# breaks: has no gradient from later keys
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The mask hides a query's own position. It sees the keys at positions 0 to i, and i is one of them
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] >= torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The mask is the wrong way round: the earlier keys are hidden
# breaks: a later key has none from it
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] < torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The positions of the keys start at 0 in every tile. Add the position at which the tile begins
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(len(torch.arange(s)[part])) > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% Hidden scores were set to 0 and not to −∞, so hidden keys have a weight
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, 0.0)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% δ is missing: it is subtracted from dP before the product with P
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% δ was added. It is subtracted from dP
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT + delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% δ was computed in each tile from this tile's keys only. It is a sum over all keys: dO times the output
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        delta = (p * (d_out @ values.mT)).sum(-1, keepdim=True)
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% δ is one number per row, the sum over the width of the head. It was not summed
# breaks: is the gradient of `out`
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% δ was summed over the rows of the head. It is a sum over the width
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-2, keepdim=True).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% dO is missing in δ: it is dO times the output, summed over the width of the head
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = out.sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The probabilities of a tile were normalised within the tile. With the logsumexp they need no further sum
# breaks: has the shape (heads, s, 1)
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = scores.softmax(-1).nan_to_num()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The logsumexp was not subtracted, so the exponentials are not probabilities
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = scores.exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The scale is missing in the scores: they are divided by √d
# breaks: divided by √d
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The scale is missing in dq and dk: it is a factor of the scores, so the chain rule brings it back
# breaks: belongs in dq and in dk
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta)
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The scale was used in dv as well. V is not scaled
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out * scale
    return dq, dk, dv


# %% Scores are divided by √d. They were divided by d
# breaks: divided by √d
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -1.0
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% dq is a sum over all tiles. Only the last one is left
# breaks: One tile at a time
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq = ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The product with P is missing in dS: it is P times (dP − δ)
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = (d_out @ values.mT - delta) * (p > 0) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The keys of the last, shorter tile are left out
# breaks: The last tile may be shorter
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s - s % tile, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% dk and dv were exchanged
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dv, dk


# %% dq and dk were exchanged
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dk, dq, dv


# %% dv needs the probabilities, and not dS
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = ds.mT @ d_out
    return dq, dk, dv


# %% dv needs the gradient of the output, and not the output
# breaks: `d_out` is the gradient of `out`
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ out
    return dq, dk, dv


# %% dk needs the queries. The keys were taken
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ k
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% All keys were taken at once: a whole square was in memory. Work on `tile` keys at a time
# breaks: a whole square of s
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    tile = s
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        keys, values = k[:, part], v[:, part]
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        scores = (q @ keys.mT * scale).masked_fill(later, -math.inf)
        p = (scores - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk[:, part] = ds.mT @ q
        dv[:, part] = p.mT @ d_out
    return dq, dk, dv


# %% The scale is missing in dq and dk
# breaks: belongs in dq and in dk
def causal_backward(d_out, q, k, v, out, lse, tile):
    s, scale = q.shape[-2], q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, s, tile):
        part = slice(begin, begin + tile)
        later = torch.arange(s)[part] > torch.arange(s)[:, None]
        p = ((q * scale) @ k[:, part].mT - lse).exp().masked_fill(later, 0)
        ds = p * (d_out @ v[:, part].mT - delta)
        dq += ds @ k[:, part] * scale
        dk[:, part], dv[:, part] = ds.mT @ q, p.mT @ d_out
    return dq, dk, dv


# %% The mask is missing
def causal_backward(d_out, q, k, v, out, lse, tile):
    scale, delta = q.shape[-1] ** -0.5, (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), [], []
    for keys, values in zip(k.split(tile, -2), v.split(tile, -2)):
        p = (q @ keys.mT * scale - lse).exp()
        ds = p * (d_out @ values.mT - delta) * scale
        dq += ds @ keys
        dk.append(ds.mT @ q)
        dv.append(p.mT @ d_out)
    return dq, torch.cat(dk, -2), torch.cat(dv, -2)


# %% a whole square was in memory
# breaks: a whole square of s
def causal_backward(d_out, q, k, v, out, lse, tile):
    q, k, v = (t.clone().requires_grad_() for t in (q, k, v))
    y, _ = causal(q, k, v)
    return torch.autograd.grad(y, (q, k, v), d_out)
