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
# breaks: parameters, gradients and what AdamW keeps
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 14 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% multiply by the layers
# breaks: the activations of all layers
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (34 * s * h + 5 * a * s * s) + 1,
        "vocabulary": h // 3 + 1,
    }


# %% log-softmax, its gradient and the logits'
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * (34 * s * h + 5 * a * s * s)) + 1,
        "vocabulary": layers * h + 1,
    }


# %% a layer keeps its input alone
# breaks: under full recomputation
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


# %% A whole number was asked
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {"tokens": 34 * h / (5 * a), "batch": 16 * n / (layers * layer), "vocabulary": layers * h / 3}


# %% 34h over 5a
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {"tokens": 5 * h // (34 * a) + 1, "batch": 16 * n // (layers * layer) + 1, "vocabulary": layers * h // 3 + 1}


# %% only while the update runs
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {"tokens": 34 * h // (5 * a) + 1, "batch": 22 * n // (layers * layer) + 1, "vocabulary": layers * h // 3 + 1}


# %% 12 for the optimizer
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {"tokens": 34 * h // (5 * a) + 1, "batch": 20 * n // (layers * layer) + 1, "vocabulary": layers * h // 3 + 1}


# %% not its input alone
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * 2 * s * h) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% activations have 2 bytes
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * (66 * s * h + 9 * a * s * s)) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% logits have 2 bytes each
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * layer) + 1,
        "vocabulary": 2 * layers * h // 12 + 1,
    }


# %% 6 bytes for the three of them
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * layer) + 1,
        "vocabulary": 2 * layers * h // 3 + 1,
    }


# %% the last norm is no part of a layer
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * layer) + 1,
        "vocabulary": (2 * layers * h + 4 * h) // 6 + 1,
    }


# %% Tokens stand on both sides
# breaks: It does not depend on `s`
def crossover(layers, h, a, s, n):
    layer = 34 * s * h + 5 * a * s * s
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * layer) + 1,
        "vocabulary": 2 * layers * s * h // 6 + 1,
    }


# %% 5as/h was rounded down
def crossover(layers, h, a, s, n):
    return {
        "tokens": 34 * h // (5 * a) + 1,
        "batch": 16 * n // (layers * s * h * (34 + 5 * a * s // h)) + 1,
        "vocabulary": layers * h // 3 + 1,
    }


# %% batch: It was rounded up
# breaks: An equal number of bytes is not more
def crossover(layers, h, a, s, n):
    sequence = layers * (34 * s * h + 5 * a * s * s)
    return {"tokens": 34 * h // (5 * a) + 1, "batch": -(-16 * n // sequence), "vocabulary": layers * 2 * h // 6 + 1}
