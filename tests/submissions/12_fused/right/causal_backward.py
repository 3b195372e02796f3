# %% tiles that are hidden are skipped
def causal_backward(d_out, q, k, v, out, lse, tile):
    scale = q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
    for begin in range(0, q.shape[1], tile):
        keys, values = k[:, begin : begin + tile], v[:, begin : begin + tile]
        seen = slice(begin, None)  # earlier queries do not see these keys
        p = torch.exp(scale * q[:, seen] @ keys.mT - lse[:, seen]).tril()
        ds = scale * p * (d_out[:, seen] @ values.mT - delta[:, seen])
        dq[:, seen] += ds @ keys
        dk[:, begin : begin + tile] = ds.mT @ q[:, seen]
        dv[:, begin : begin + tile] = p.mT @ d_out[:, seen]
    return dq, dk, dv


# %% split, with scaled queries
def causal_backward(d_out, q, k, v, out, lse, tile):
    scale = 1 / math.sqrt(q.shape[-1])
    scaled, delta, begin = q * scale, torch.einsum("hsd,hsd->hs", d_out, out), 0
    dq, dks, dvs = 0, [], []
    rows = torch.arange(q.shape[1])
    for keys, values in zip(k.split(tile, 1), v.split(tile, 1)):
        columns = torch.arange(begin, begin + keys.shape[1])
        visible = (columns[None] <= rows[:, None]).to(q.dtype)
        p = torch.exp(scaled @ keys.transpose(1, 2) - lse) * visible
        ds = p * (torch.bmm(d_out, values.mT) - delta[..., None])
        dq = dq + ds @ keys
        dks.append(ds.mT @ scaled)
        dvs.append(p.mT @ d_out)
        begin += keys.shape[1]
    return scale * dq, torch.cat(dks, 1), torch.cat(dvs, 1)


# %% tiles of queries, and the keys that each sees
def causal_backward(d_out, q, k, v, out, lse, tile):
    scale = q.shape[-1] ** -0.5
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for begin in range(0, q.shape[1], tile):
        end = min(begin + tile, q.shape[1])
        mine = slice(begin, end)
        delta = (d_out[:, mine] * out[:, mine]).sum(-1, keepdim=True)
        p = torch.exp(q[:, mine] @ k[:, :end].mT * scale - lse[:, mine]).tril(begin)
        ds = p * (d_out[:, mine] @ v[:, :end].mT - delta) * scale
        dq[:, mine] = ds @ k[:, :end]
        dk[:, :end] += ds.mT @ q[:, mine]
        dv[:, :end] += p.mT @ d_out[:, mine]
    return dq, dk, dv


# %% autograd on one tile of keys at a time
def causal_backward(d_out, q, k, v, out, lse, tile):
    delta, dq, dks, dvs = (d_out * out).sum(-1, keepdim=True), torch.zeros_like(q), [], []
    for begin in range(0, q.shape[1], tile):
        keys = k[:, begin : begin + tile].clone().requires_grad_()
        values = v[:, begin : begin + tile].clone()
        queries = q.clone().requires_grad_()
        hidden = torch.arange(begin, begin + keys.shape[1]) > torch.arange(q.shape[1])[:, None]
        scores = queries @ keys.mT * q.shape[-1] ** -0.5
        p = torch.exp(scores.detach().masked_fill(hidden, -math.inf) - lse)
        a, b = torch.autograd.grad(scores, (queries, keys), p * (d_out @ values.mT - delta))
        dq += a
        dks.append(b)
        dvs.append(p.mT @ d_out)
    return dq, torch.cat(dks, 1), torch.cat(dvs, 1)


# %% one head after another, one key after another
def causal_backward(d_out, q, k, v, out, lse, tile):
    gradients = []
    for do, q1, k1, v1, o, l in zip(d_out, q, k, v, out, lse[..., 0]):
        dq, dk, dv = torch.zeros_like(q1), torch.zeros_like(k1), torch.zeros_like(v1)
        delta, scale = (do * o).sum(-1), q1.shape[-1] ** -0.5
        for j in range(len(k1)):
            p = torch.exp(q1[j:] @ k1[j] * scale - l[j:])
            ds = p * (do[j:] @ v1[j] - delta[j:]) * scale
            dq[j:] += torch.outer(ds, k1[j])
            dk[j] = ds @ q1[j:]
            dv[j] = p @ do[j:]
        gradients.append((dq, dk, dv))
    return tuple(torch.stack(each) for each in zip(*gradients))
