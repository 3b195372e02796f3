# %% taken to have the activation's dtype
# breaks: 1 byte for each element
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x, p, f = s * b * h * itemsize, b * a * s * s * itemsize, s * b * ffn * itemsize
    return {
        "norms": 2 * x,
        "qkv": 4 * x,
        "square": 3 * p,
        "projection": 2 * x,
        "mlp": 2 * x + f * (2 if activation == "gelu" else 1),
    }


# %% one wide tensor, not two
# breaks: is `"gelu"` or `"relu"`
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + 2 * itemsize * s * b * ffn,
    }


# %% two wide tensors, not one
# breaks: Each storage counts once
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + itemsize * s * b * ffn,
    }


# %% ffn wide here, not 4h
# breaks: that are `ffn` wide
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + (8 if activation == "gelu" else 4) * itemsize * x,
    }


# %% not always 2
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 4 * x,
        "qkv": 8 * x,
        "square": 5 * a * s * s * b,
        "projection": 3 * x,
        "mlp": 3 * x + 2 * wide * s * b * ffn,
    }


# %% multiply by a
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + wide * itemsize * s * b * ffn,
    }


# %% multiply by b
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * h
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + wide * itemsize * s * ffn,
    }


# %% a tensor of its own, beside softmax's
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + wide * itemsize * s * b * ffn,
    }


# %% Three were counted of four
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 2 * itemsize * x,
        "qkv": 3 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": (itemsize + 1) * x + wide * itemsize * s * b * ffn,
    }


# %% its mask has sbh bytes
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x, f = s * b * h, s * b * ffn
    wide = 2 if activation == "gelu" else 1
    return {
        "norms": 2 * itemsize * x,
        "qkv": 4 * itemsize * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": (itemsize + 1) * x,
        "mlp": itemsize * x + wide * itemsize * f + f,
    }


# %% square, mlp: The dict that was returned lacks this entry
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x = s * b * h
    return {"norms": 2 * itemsize * x, "qkv": 4 * itemsize * x, "projection": (itemsize + 1) * x, "MLP": 0}


# %% returned a list, expected a dict with 'norms', 'qkv'
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    return [2 * itemsize * s * b * h, 4 * itemsize * s * b * h]


# %% Q, K and V are missing
# breaks: and Q, K and V
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"qkv": e * sbh}


# %% Two were counted of four
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"qkv": 2 * e * sbh}


# %% softmax's output alone
# breaks: the mask of its dropout
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"square": e * a * s * s * b}


# %% The scores themselves are not kept
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"square": (3 * e + 1) * a * s * s * b}


# %% not for each of the h numbers
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"square": (2 * e + 1) * h * s * s * b}


# %% not none
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"mlp": (e + 1) * sbh + (2 * e * s * b * ffn if activation == "gelu" else 0)}


# %% Nobody keeps the output of narrow
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"mlp": (2 * e + 1) * sbh + wide * e * s * b * ffn}


# %% That is the table's 19 sbh
# breaks: counts the input of widen
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"mlp": 19 * sbh}


# %% the projection's is missing
# breaks: the mask of the dropout after it
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"projection": sbh}


# %% The projection's input is h wide
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found | {"projection": (3 * e + 1) * sbh}


# %% Elements were counted
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = 1, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return found


# %% for each of the sbh elements
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return {name: nbytes / sbh for name, nbytes in found.items()}


# %% only the rest of the table
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    sbh = s * b * h
    e = itemsize
    return {
        k: v * e // 2
        for k, v in {
            "norms": 4 * sbh,
            "qkv": 8 * sbh,
            "square": 5 * a * s * s * b,
            "projection": 3 * sbh,
            "mlp": 3 * sbh + 2 * s * b * ffn * (2 if activation == "gelu" else 1),
        }.items()
    }


# %% were to be left out
# breaks: without their statistics
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    sbh = s * b * h
    e = itemsize
    return {
        "norms": 2 * e * sbh + 8 * s * b,
        "qkv": 4 * e * sbh,
        "square": a * s * s * b * (2 * e + 1),
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + s * b * ffn * e * (1 + (activation == "gelu")),
    }


# %% ReLU keeps no mask
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    sbh = s * b * h
    e = itemsize
    return {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": a * s * s * b * (2 * e + 1),
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + s * b * ffn * (2 * e if activation == "gelu" else e + 1),
    }


# %% LayerNorm 2's input is among the norms
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    x, wide = itemsize * s * b * h, itemsize * s * b * ffn
    return {
        "norms": x,
        "qkv": 4 * x,
        "square": (2 * itemsize + 1) * a * s * s * b,
        "projection": x + s * b * h,
        "mlp": 2 * x + (2 if activation == "gelu" else 1) * wide + s * b * h,
    }
