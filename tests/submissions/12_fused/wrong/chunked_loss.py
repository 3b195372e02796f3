# %% This is the sum of the losses of all tokens. The mean is asked for
# breaks: is the mean over all n tokens
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum()
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The means of the chunks were averaged. The last chunk has fewer rows, so its tokens counted too much
# breaks: The last chunk may have fewer rows
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].mean() / -(-n // rows)
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The means of the chunks were added up
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].mean()
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The sign of the loss is wrong: it is minus the logarithm of a probability
# breaks: of −log softmax
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss += log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% This is the loss of the last chunk alone
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss = -log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The mean is over n tokens. Here the sum was divided by the number of entries, too
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n / len(w)
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% This is the logit of the right entry. The logsumexp of the row is missing
# breaks: taken at the right entry
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= (x[part] @ w.T)[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The gradient was not divided by n: the loss is a mean
# breaks: is the gradient of the loss for `x`
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp()
        d_logits[at] -= 1
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The gradient was divided by the rows of a chunk. The loss is a mean over all n tokens
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / len(log_p)
        d_logits[at] -= 1 / len(log_p)
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% Nothing was subtracted at the right entries: the gradient of the logits is softmax minus 1 there
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% At the right entries, 1 was subtracted after the division by n. It has to be divided as well
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The sign at the right entries is wrong: 1 is subtracted there
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] += 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The gradient of the logits needs the probabilities. These are their logarithms
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% dw is a sum over all chunks. Only the last one is left
# breaks: is the gradient of the loss for `w`
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw = d_logits.T @ x[part]
    return loss, dx, dw


# %% dw was averaged over the chunks. It is their sum
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part] / -(-n // rows)
    return loss, dx, dw


# %% dw is transposed: it has the shape of w
# breaks: is the gradient of the loss for `w`
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw.T


# %% Each chunk has its own rows of x. dw was computed with the first rows every time
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[: len(d_logits)]
    return loss, dx, dw


# %% dx has a row for every token. These are the rows of the last chunk, added to those of all others
# breaks: is the gradient of the loss for `x`
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[: len(log_p)] += d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The tokens of the last, shorter chunk are left out
# breaks: The last chunk may have fewer rows
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n - n % rows, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% Every chunk was given the right entries of the first tokens
# breaks: holds the number of the right entry
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[: len(log_p)]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% Without the maximum, the exponential of a large logit overflows. Use log_softmax or logsumexp
# breaks: nothing may overflow
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = x[part] @ w.T
        log_p = log_p - log_p.exp().sum(-1, keepdim=True).log()
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% The probability of a right entry may underflow to 0, and its logarithm is −∞. Use log_softmax
# breaks: nothing may overflow
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = (x[part] @ w.T).softmax(-1).log()
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% All logits were in memory at once. Compute those of `rows` tokens at a time
# breaks: at most `rows` tokens
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    rows = n
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% dx and dw were exchanged
def chunked_loss(x, w, right, rows):
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dw, dx


# %% has changed its argument `right`
# breaks: does not change its arguments
def chunked_loss(x, w, right, rows):
    right.clamp_(0, len(w) - 1)
    n, loss = len(x), 0
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for begin in range(0, n, rows):
        part = slice(begin, begin + rows)
        log_p = torch.log_softmax(x[part] @ w.T, -1)
        at = torch.arange(len(log_p)), right[part]
        loss -= log_p[at].sum() / n
        d_logits = log_p.exp() / n
        d_logits[at] -= 1 / n
        dx[part] = d_logits @ w
        dw += d_logits.T @ x[part]
    return loss, dx, dw


# %% All logits were in memory at once
# breaks: at most `rows` tokens
def chunked_loss(x, w, right, rows):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    loss = F.cross_entropy(x @ w.T, right)
    return loss.detach(), *torch.autograd.grad(loss, (x, w))


# %% All logits were in memory at once
# breaks: at most `rows` tokens
def chunked_loss(x, w, right, rows):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    parts = zip(x.split(rows), right.split(rows))
    loss = sum(F.cross_entropy(a @ w.T, b, reduction="sum") for a, b in parts) / len(x)
    return loss.detach(), *torch.autograd.grad(loss, (x, w))
