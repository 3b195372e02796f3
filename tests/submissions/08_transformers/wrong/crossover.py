# %% More, not as much
def crossover(layers, h, a, s, n):
    import math

    return {
        "tokens": math.ceil(34 * h / (5 * a)),
        "batch": 16 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": math.ceil(layers * h / 3),
    }


# %% the width of one head
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // 5 + 1,
        "batch": 16 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% gradients belong to it
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 14 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% multiply by the layers
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (34 * s * h + 5 * a * s * s) + 1,
        "vocabulary": h // 3 + 1,
    }


# %% logits, log-softmax and its gradient
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": layers * h + 1,
    }


# %% a layer keeps its input alone
def crossover(layers, h, a, s, n):
    sequence = layers * (34 * s * h + 5 * a * s * s)
    return {"tokens": 34 * h // (5 * a) + 1, "batch": 16 * n // sequence + 1, "vocabulary": sequence // (6 * s) + 1}


# %% bfloat16 throughout
def crossover(layers, h, a, s, n):
    sequence = layers * (34 * s * h + 5 * a * s * s)
    return {"tokens": 34 * h // (5 * a) + 1, "batch": 8 * n // sequence + 1, "vocabulary": layers * h // 3 + 1}


# %% batch: The dict that was returned lacks this entry
def crossover(layers, h, a, s, n):
    return {"tokens": 34 * h // (5 * a) + 1, "vocabulary": layers * h // 3 + 1}
