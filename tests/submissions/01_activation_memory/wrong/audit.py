# %% they are not tied
# breaks: two tables of
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% this one is in GB
# breaks: is their size, in GiB
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 1e9,
        "training_gib": 16 * n / 1e9,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% four numbers for each parameter
# breaks: the parameters, their gradients and AdamW
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 12 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% multiply by the heads
# breaks: for every head
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * tokens**2 / 1e9,
    }


# %% three matrices
# breaks: with three matrices
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 2 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% The last norm was forgotten
# breaks: one more such norm
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% there are no biases
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 4 * width) + 2 * vocabulary * width + 2 * width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% A table of positions was counted
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + (2 * vocabulary + tokens) * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% parameters_gib, training_gib, attention_gb: The fraction was rounded away
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n // 2**30,
        "training_gib": 16 * n // 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 // 10**9,
    }


# %% or some of it: give the number as it comes
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": round(4 * n / 2**30, 2),
        "training_gib": round(16 * n / 2**30, 2),
        "attention_gb": round(4 * layers * heads * tokens**2 / 1e9, 2),
    }


# %% this one is in MiB
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**20,
        "training_gib": 16 * n / 2**20,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% 4 bytes for each probability, not 2
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 2 * layers * heads * tokens**2 / 1e9,
    }


# %% parameters, parameters_gib, training_gib: Attention has four matrices
# breaks: four `width` × `width` matrices
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (3 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% parameters: This is their size in bytes
# breaks: is the number of parameters
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = 4 * (layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width)
    return {
        "parameters": n,
        "parameters_gib": n / 2**30,
        "training_gib": 4 * n / 2**30,
        "attention_gb": 4 * layers * heads * tokens**2 / 1e9,
    }


# %% attention_gb: This is one head's width
# breaks: for every head
def audit(layers, width, heads, ffn, vocabulary, tokens):
    n = layers * (4 * width**2 + 3 * width * ffn + 2 * width) + 2 * vocabulary * width + width
    return {
        "parameters": n,
        "parameters_gib": 4 * n / 2**30,
        "training_gib": 16 * n / 2**30,
        "attention_gb": 4 * layers * width // heads * tokens**2 / 1e9,
    }
