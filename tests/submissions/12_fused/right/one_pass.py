# %% pieces as triples that are merged
def one_pass(pieces):
    def merge(left, right):
        m = torch.maximum(left[0], right[0])
        a, b = (left[0] - m).exp(), (right[0] - m).exp()
        return m, left[1] * a + right[1] * b, left[2] * a[:, None] + right[2] * b[:, None]

    state = None
    for scores, values in pieces:
        m = scores.max(dim=-1).values.clamp(min=-1e9)
        weights = torch.exp(scores - m[:, None])
        piece = m, weights.sum(-1), weights @ values
        state = piece if state is None else merge(state, piece)
    m, d, o = state
    return o / d[:, None], m + torch.log(d)


# %% the output so far and its logsumexp, nothing else
def one_pass(pieces):
    out, lse = 0.0, torch.tensor(-1e30, dtype=torch.float64)
    for scores, values in pieces:
        new = torch.logaddexp(lse, scores.logsumexp(-1))
        out = out * (lse - new).exp()[..., None] + (scores - new[:, None]).exp() @ values
        lse = new
    return [out, lse]


# %% one score after another, in Python
def one_pass(pieces):
    state = None
    for scores, values in pieces:
        state = state or [[-1e300, 0.0, [0.0] * values.shape[1]] for _ in scores]
        for row, numbers in zip(state, scores.tolist()):
            for s, v in zip(numbers, values.tolist()):
                larger = max(row[0], s)
                shrink, weight = math.exp(row[0] - larger), math.exp(s - larger)
                row[:] = larger, row[1] * shrink + weight, [a * shrink + weight * b for a, b in zip(row[2], v)]
    out = [[a / d for a in o] for _, d, o in state]
    return torch.tensor(out, dtype=torch.float64), torch.tensor([m + math.log(d) for m, d, _ in state])


# %% reduced, with a column of ones beside the values
def one_pass(pieces):
    from functools import reduce

    def step(state, piece):
        (m, sums), (scores, values) = state, piece
        values = torch.cat([values, torch.ones(len(values), 1, dtype=values.dtype)], 1)
        larger = torch.maximum(m, scores.amax(1))
        weights = torch.exp(scores - larger.unsqueeze(1))
        return larger, sums * torch.exp(m - larger).unsqueeze(-1) + weights @ values

    m, sums = reduce(step, pieces, (torch.tensor(-1e20).double(), torch.tensor(0.0).double()))
    return sums[:, :-1] / sums[:, -1:], m + sums[:, -1].log()


# %% where instead of a finite start, and next
def one_pass(pieces):
    m = d = o = None
    while (piece := next(pieces, None)) is not None:
        scores, values = piece
        if m is None:
            m, d = scores.new_full((len(scores),), -math.inf), scores.new_zeros(len(scores))
            o = scores.new_zeros(len(scores), values.shape[-1])
        larger = torch.maximum(m, scores.max(-1)[0])
        safe = torch.where(larger == -math.inf, torch.zeros_like(larger), larger)
        shrink = torch.exp(m - safe)
        weights = torch.exp(scores - safe[:, None])
        m, d = larger, d * shrink + weights.sum(1)
        o = o * shrink[:, None] + torch.einsum("rt,td->rd", weights, values)
    return o / d.unsqueeze(1), m + d.log()


# %% only corrected where a larger score arrived
def one_pass(pieces):
    m, d, o = None, None, None
    for scores, values in pieces:
        best = scores.amax(-1).nan_to_num(neginf=-1e6)
        if m is None:
            m, d, o = best, torch.zeros_like(best), torch.zeros(len(best), values.shape[1], dtype=best.dtype)
        grown = best > m
        factor = torch.where(grown, torch.exp(m - best), torch.ones_like(m))
        m = torch.where(grown, best, m)
        weights = torch.exp(scores - m[:, None])
        d, o = d * factor + weights.sum(-1), o * factor[:, None] + weights @ values
    return o / d[:, None], torch.log(d) + m
