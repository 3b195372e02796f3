# %% by sums of segments, without the library
def breaker(x, xbar):
    k = round(len(xbar) ** 0.5)

    def peak(sizes):
        held, most = 0, 0
        for first in range(0, k * k, k):
            held += x[first]
            most = max(most, held + sum(sizes[first : first + k]))
        return most

    found = []
    for i, size in enumerate(xbar):
        xbar[i] = x[i + 1]
        found.append((peak(xbar), i))
        xbar[i] = size
    least = min(found)
    return [least[1], least[0]]


# %% a tensor with both numbers
def breaker(x, xbar):
    n = len(xbar)
    k = int(n**0.5 + 0.5)
    sizes = torch.tensor(xbar).repeat(n, 1)
    sizes[range(n), range(n)] = torch.tensor(x[1:])
    peaks = sizes.view(n, k, k).sum(-1) + torch.tensor(x[:n:k]).cumsum(0)
    peak, stage = peaks.max(1).values.min(0)
    return torch.stack([stage, peak])


# %% from the last stage to the first, with task 1
def breaker(x, xbar):
    n, least = len(xbar), (inf, None)
    starts = list(range(0, n, round(n**0.5)))
    for stage in range(n - 1, -1, -1):
        copy = list(xbar)
        copy[stage] = x[stage + 1]
        least = min(least, (predict_peak(x, copy, starts), stage))
    return float(least[1]), least[0]
