# %% storages listed one by one
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    token, score = s * b, b * a * s * s
    storages = [
        ("norms", token * h * itemsize),
        ("qkv", token * h * itemsize),
        ("qkv", token * 3 * h * itemsize),
        ("square", score * itemsize),
        ("square", score),
        ("square", score * itemsize),
        ("projection", token * h * itemsize),
        ("projection", token * h),
        ("norms", token * h * itemsize),
        ("mlp", token * h * itemsize),
        ("mlp", token * ffn * itemsize),
        ("mlp", token * h),
    ]
    if activation == "gelu":
        storages.append(("mlp", token * ffn * itemsize))
    found = {}
    for name, nbytes in storages:
        found[name] = found.get(name, 0) + nbytes
    return found


# %% measured on the meta device, by shapes
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    dtype = {2: torch.bfloat16, 4: torch.float32}[itemsize]
    x = torch.empty(s, b, h, dtype=dtype, device="meta").nbytes
    score = torch.empty(b * a, s, s, dtype=dtype, device="meta")
    wide = torch.empty(s, b, ffn, dtype=dtype, device="meta").nbytes
    return {
        "mlp": x + wide + (wide if activation == "gelu" else 0) + x // itemsize,
        "projection": x + x // itemsize,
        "square": 2 * score.nbytes + score.numel(),
        "qkv": 4 * x,
        "norms": 2 * x,
    }


# %% tensors of one number
def layer_terms(s, b, h, a, ffn, itemsize, activation):
    e, sbh, wide = itemsize, s * b * h, 2 if activation == "gelu" else 1
    found = {
        "norms": 2 * e * sbh,
        "qkv": 4 * e * sbh,
        "square": (2 * e + 1) * a * s * s * b,
        "projection": (e + 1) * sbh,
        "mlp": (e + 1) * sbh + wide * e * s * b * ffn,
    }
    return {name: torch.tensor(nbytes) for name, nbytes in found.items()}
