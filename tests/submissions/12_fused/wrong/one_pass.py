# %% The old z was not corrected. When a larger score arrives, z is multiplied by the factor as well as o
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The old o was not corrected. When a larger score arrives, o is multiplied by the factor as well as z
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The old sums were not corrected. When a larger score arrives, they are multiplied by a factor (section 12.1)
# breaks: weighted by the softmax
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z + weights.sum(-1, keepdim=True)
        o = o + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The factor was used twice for z: it corrects the old sum once
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% New terms were multiplied by the factor, too. Only the old sum is relative to the old maximum
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = (z + weights.sum(-1, keepdim=True)) * shrink
        o = (o + weights @ values) * shrink
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% If all keys of a row are hidden so far, −∞ − (−∞) is not a number. Start with a finite maximum far below all scores
# breaks: may be hidden as a whole
def one_pass(pieces):
    m, z, o = torch.tensor(-math.inf, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The maximum of a row has to come from its own scores. Relative to a larger number, such as 0 or the maximum of another row, the exponentials of a row may all underflow
# breaks: as small as −2,000
def one_pass(pieces):
    m, z, o = torch.tensor(0.0, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% Without the maximum, the exponential of a large score overflows, and that of a very negative one is 0
# breaks: nothing may overflow
def one_pass(pieces):
    m, z, o = torch.tensor(0.0, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.tensor(0.0, dtype=torch.float64)
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The logsumexp is m + ln z: m is missing
# breaks: logarithm of the sum
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, z.log()[:, 0]


# %% The logsumexp is m + ln z: this is the largest score alone
# breaks: logarithm of the sum
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, m[:, 0]


# %% The logsumexp is m + ln z: the logarithm is missing
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z)[:, 0]


# %% The logsumexp is m + ln z: the logarithm was subtracted
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m - z.log())[:, 0]


# %% The logarithm is the natural one, and not that of base 2
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log2())[:, 0]


# %% This is the sum of the exponentials. Its logarithm is asked for
# breaks: logarithm of the sum
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m.exp() * z)[:, 0]


# %% `lse` has one number per row, in the shape (rows,): the last dimension is left over
# breaks: has the shape (rows,)
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, m + z.log()


# %% The weighted sum was not divided by z, so the weights do not add up to 1
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o, (m + z.log())[:, 0]


# %% The weighted sum was divided by the number of keys, and not by the sum of their weights
def one_pass(pieces):
    n = 0
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m, n = larger, n + len(values)
    return o / n, (m + z.log())[:, 0]


# %% Only the last piece was used. The softmax is over all pieces of the row
# breaks: over *all* pieces
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = weights.sum(-1, keepdim=True)
        o = weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The first piece was left out, perhaps because it was read for its shape only
# breaks: over *all* pieces
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    next(pieces)
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% Each piece was given a softmax of its own, and the results were added. The softmax is over all pieces
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        part = scores.softmax(-1) @ values
        o = o + part
        m = larger
    return o, (m + z.log())[:, 0]


# %% Each piece was given a softmax of its own, and the results were averaged. A piece with larger scores counts more
def one_pass(pieces):
    n = 0
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o + scores.softmax(-1) @ values
        n += 1
        m = larger
    return o / n, (m + z.log())[:, 0]


# %% A hidden key was given the score 0. A score of −∞ has the weight 0
# breaks: hides its value
def one_pass(pieces):
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        scores = scores.masked_fill(scores == -math.inf, 0.0)
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% All pieces were kept in memory. Use each piece when it arrives, and forget it
# breaks: does not keep earlier pieces
def one_pass(pieces):
    pieces = list(pieces)
    m, z, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% The smallest score was taken in place of the largest, so the exponentials overflow
def one_pass(pieces):
    m, z, o = torch.tensor(0.0, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = scores.amin(-1, keepdim=True)
        shrink, weights = (m - larger).exp(), (scores - larger).exp()
        z = z * shrink + weights.sum(-1, keepdim=True)
        o = o * shrink + weights @ values
        m = larger
    return o / z, (m + z.log())[:, 0]


# %% the pieces were read a second time
# breaks: `pieces` is an iterator of pairs
def one_pass(pieces):
    m = -1e30
    for scores, _ in pieces:
        m = torch.maximum(torch.as_tensor(m), scores.amax(-1, keepdim=True))
    d, o = 0, 0
    for scores, values in pieces:
        weights = (scores - m).exp()
        d, o = d + weights.sum(-1, keepdim=True), o + weights @ values
    return o / d, (m + d.log())[:, 0]


# %% All pieces were kept in memory
# breaks: does not keep earlier pieces
def one_pass(pieces):
    scores, values = zip(*pieces)
    scores, values = torch.cat(scores, -1), torch.cat(values)
    return scores.softmax(-1) @ values, scores.logsumexp(-1)


# %% The maximum of a row has to come from its own scores
# breaks: as small as −2,000
def one_pass(pieces):
    m, d, o = torch.tensor(-1e30, dtype=torch.float64), 0, 0
    for scores, values in pieces:
        larger = torch.maximum(m, scores.amax())
        d = d * (m - larger).exp() + (scores - larger).exp().sum(-1)
        o = o * (m - larger).exp() + (scores - larger).exp() @ values
        m = larger
    return o / d[:, None], m + d.log()
