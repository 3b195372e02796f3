# %% autograd for one chunk at a time
def chunked_loss(x, w, right, rows):
    w = w.clone().requires_grad_()
    loss, dx = 0.0, []
    for part, at in zip(x.split(rows), right.split(rows)):
        part = part.clone().requires_grad_()
        piece = F.cross_entropy(part @ w.T, at, reduction="sum") / len(x)
        piece.backward()
        loss += piece.item()
        dx.append(part.grad)
    return loss, torch.cat(dx), w.grad


# %% one row at a time
def chunked_loss(x, w, right, rows):
    loss, dx, dw = 0.0, torch.empty_like(x), torch.zeros_like(w)
    for i in range(len(x)):
        logits = w @ x[i]
        lse = torch.logsumexp(logits, 0)
        loss += (lse - logits[right[i]]).item()
        p = torch.exp(logits - lse)
        p[right[i]] -= 1
        dx[i] = p @ w
        dw += torch.outer(p, x[i])
    return loss / len(x), dx / len(x), dw / len(x)


# %% chunks of fewer rows, one-hot
def chunked_loss(x, w, right, rows):
    total, dxs, dw = torch.zeros((), dtype=x.dtype), [], 0
    half = max(1, rows // 2)
    for part, at in zip(x.split(half), right.split(half)):
        logits = part @ w.T
        total = total + F.cross_entropy(logits, at, reduction="sum")
        d = logits.softmax(-1) - F.one_hot(at, len(w))
        dxs.append(d @ w)
        dw = dw + d.T @ part
    return total / len(x), torch.cat(dxs) / len(x), dw / len(x)


# %% the maximum by hand, and addmm
def chunked_loss(x, w, right, rows):
    n = len(x)
    dx, dw, losses = torch.empty_like(x), torch.zeros_like(w), []
    for begin in range(0, n, rows):
        end = min(n, begin + rows)
        logits = torch.mm(x[begin:end], w.T)
        logits -= logits.max(-1, keepdim=True).values
        sums = logits.exp().sum(-1, keepdim=True)
        index = right[begin:end, None]
        losses.append((sums.log() - logits.gather(1, index)).sum())
        d = logits.exp_().div_(sums).scatter_add_(1, index, torch.full(index.shape, -1.0, dtype=x.dtype)).div_(n)
        torch.mm(d, w, out=dx[begin:end])
        dw.addmm_(d.T, x[begin:end])
    return sum(losses) / n, dx, dw


# %% the vocabulary in tiles as well
def chunked_loss(x, w, right, rows):
    n, step = len(x), 7
    loss, dx, dw = 0, torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part, at = x[begin : begin + rows], right[begin : begin + rows]
        lse = torch.full((len(part),), -1e30, dtype=x.dtype)
        for tile in w.split(step):
            lse = torch.logaddexp(lse, (part @ tile.T).logsumexp(-1))
        loss = loss + (lse - (part * w[at]).sum(-1)).sum() / n
        for first in range(0, len(w), step):
            tile = w[first : first + step]
            p = torch.exp(part @ tile.T - lse[:, None]) / n
            dx[begin : begin + rows] += p @ tile
            dw[first : first + step] += p.T @ part
        dx[begin : begin + rows] -= w[at] / n
        dw.index_add_(0, at, part, alpha=-1 / n)
    return loss, dx, dw
