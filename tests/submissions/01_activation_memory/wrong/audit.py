# %% they are not tied
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% this one is in GB
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 1e9,
        "training_gib": 16 * n / 1e9,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% four numbers for each parameter
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 12 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% multiply by the heads
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * tokens**2 / 1e9,
    }


# %% three matrices
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 2 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }
