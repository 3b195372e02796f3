# %% by search
def crossover(layers, h, a, s, n):
    def smallest(more):
        low, high = 0, 1
        while not more(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if more(middle) else (middle, high)
        return high

    def layer(tokens, batch):
        return 34 * tokens * batch * h, 5 * a * tokens**2 * batch

    return {
        "vocabulary": smallest(lambda v: 6 * s * v > layers * 2 * s * h),
        "batch": smallest(lambda b: layers * sum(layer(s, b)) > (2 + 2 + 4 + 4 + 4) * n),
        "tokens": smallest(lambda t: layer(t, 1)[1] > layer(t, 1)[0]),
    }


# %% by fractions, as floats
def crossover(layers, h, a, s, n):
    from fractions import Fraction
    from math import floor

    def more_than(number):
        return float(floor(number) + 1)

    kept = layers * s * h * (34 + Fraction(5 * a * s, h))
    return {
        "vocabulary": more_than(Fraction(2 * h * layers, 3 * 2)),
        "batch": more_than(Fraction((2 + 2 + 4 + 4 + 4) * n) / kept),
        "tokens": more_than(Fraction(34 * h, 5 * a)),
    }
