# %% by search
def winning(fixed, each, again, plain, most):
    from fractions import Fraction

    def per_sequence(batch, extra):
        return Fraction(fixed, batch) + each + extra

    without = per_sequence(plain, 0)
    smallest = 0
    if per_sequence(most, again) < without:
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if per_sequence(middle, again) < without else (middle, high)
        smallest = high
    gain = without / per_sequence(most, again) - 1
    return {"gain": float(gain), "smallest": smallest, "break_even": fixed / again}


# %% sequences per second
def winning(fixed, each, again, plain, most):
    rate = plain / (fixed + plain * each)
    best = most / (fixed + most * (each + again))
    left = fixed - plain * again
    first = 0 if left <= 0 else -(-(fixed * plain + 1) // left)
    return {"break_even": fixed / again, "smallest": first * (first <= most), "gain": (best - rate) / rate}


# %% in fractions, all of it
def winning(fixed, each, again, plain, most):
    from fractions import Fraction
    from math import floor

    share = Fraction(fixed, plain) - again  # what a sequence may pay of the fixed time
    smallest = floor(fixed / share) + 1 if share > 0 else most + 1
    speed = Fraction(fixed + plain * each, plain) / Fraction(fixed + most * (each + again), most)
    return {"break_even": Fraction(fixed, again), "smallest": smallest if smallest <= most else 0, "gain": speed - 1}


# %% the rule of the chapter first
def winning(fixed, each, again, plain, most):
    t, r = each, again / each
    found = {"break_even": fixed / (r * t), "smallest": 0}
    if plain < fixed / again and fixed * (most - plain) > again * plain * most:
        top, bottom = fixed * plain, fixed - again * plain
        found["smallest"] = (top + bottom - top % bottom) // bottom
    found["gain"] = (fixed / plain + t) / (fixed / most + t * (1 + r)) - 1
    return found


# %% with numpy
def winning(fixed, each, again, plain, most):
    import numpy as np

    batches = np.arange(1, min(most, 10**6) + 1, dtype=np.int64)
    wins = batches * (fixed - again * plain) > fixed * plain
    smallest = int(batches[wins][0]) if wins.any() else 0
    time = np.array([fixed / plain + each, fixed / most + each + again])
    return {"break_even": np.float64(fixed / again), "smallest": smallest, "gain": np.divide(*time) - 1}


# %% tries the batches, with fractions
def winning(fixed, each, again, plain, most):
    from fractions import Fraction

    def rate(batch, extra):
        return Fraction(batch, fixed + batch * (each + extra))

    low, high = 1, most + 1  # the rate grows with the batch
    while low < high:
        middle = (low + high) // 2
        if rate(middle, again) > rate(plain, 0):
            high = middle
        else:
            low = middle + 1
    gain = rate(most, again) / rate(plain, 0) - 1
    return {"gain": float(gain), "smallest": float(low if low <= most else 0), "break_even": float(Fraction(fixed, again))}
