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
