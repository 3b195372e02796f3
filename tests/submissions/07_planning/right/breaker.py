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
