# %% bottom up, from a list of functions
import math
from functools import partial


def nested(checkpoint, blocks, x):
    parts = list(blocks)
    while len(parts) > 2:
        parts = [partial(both, checkpoint, *pair) for pair in zip(parts[::2], parts[1::2])]
    return both(checkpoint, *parts, x)


def both(checkpoint, first, second, x):
    return checkpoint(second, checkpoint(first, x))


def predict_runs(n):
    return 1 + round(math.log2(n))


# %% a generator of functions, and a loop that halves
def nested(checkpoint, blocks, x):
    def run(part):
        if len(part) < 2:
            return part[0]
        middle = len(part) >> 1
        left, right = run(part[:middle]), run(part[middle:])
        return lambda x: checkpoint(right, checkpoint(left, x))

    return run(tuple(blocks))(x)


def predict_runs(n):
    runs = 1.0
    while n > 1:
        n, runs = n / 2, runs + 1
    return runs
