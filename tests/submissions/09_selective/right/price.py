# %% counted on tensors that hold no numbers
def price(b, m, inner, k, itemsize):
    from torch.utils.flop_counter import FlopCounterMode

    x, y = torch.empty(b, m, inner, device="meta"), torch.empty(b, inner, k, device="meta")
    with FlopCounterMode(display=False) as counter:
        z = torch.bmm(x, y)
    flops = counter.get_total_flops()
    return flops, z.numel() * itemsize, 2 * inner / itemsize


# %% a list, and a fraction
def price(b, m, inner, k, itemsize):
    from fractions import Fraction

    return [2 * b * m * inner * k, b * m * k * itemsize, Fraction(2 * inner, itemsize)]


# %% tensors with one element each
def price(b, m, inner, k, itemsize):
    flops, nbytes = torch.tensor(2 * b * m * inner * k), torch.tensor(b * m * k * itemsize)
    return flops, nbytes, flops / nbytes


# %% an array of numbers
def price(b, m, inner, k, itemsize):
    import numpy as np

    results = np.prod([b, m, k])
    return np.array([2.0 * inner * results, itemsize * results, 2 * inner / itemsize])
