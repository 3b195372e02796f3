# %% this one is in GB
# breaks: is the size of one tensor
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 8 * tokens * width, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{times * hidden / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 1e9, "swiglu_gib": 8 * tokens * ffn / 1e9, "means": means}


# %% None of the products was found
# breaks: as text
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if times * hidden / nbytes == float(number):
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% four tensors of its width, not three
# breaks: the four tensors of width
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 8 * tokens * width, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{times * hidden / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 6 * tokens * ffn / 2**30, "means": means}


# %% the wrong way round
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 8 * tokens * width, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GiB": 10**9, "GB": 2**30}.items():
            if f"{times * hidden / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% ffn is the real model's
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 2 * tokens * ffn, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{times * 8 * tokens * width / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 4 * hidden / 2**30, "means": means}


# %% too generous
# breaks: as many decimals
def audit(number, layers, width, ffn, tokens):
    import math

    hidden = 8 * tokens * width
    means = "neither"
    for what, times in (("all layers", layers), ("one layer", 1)):
        for unit, nbytes in (("GiB", 2**30), ("GB", 10**9)):
            if math.isclose(times * hidden / nbytes, float(number), rel_tol=0.09):
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% elements for bytes, or two tensors
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 8 * tokens * width, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{times * hidden / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 4 * tokens * ffn / 2**30, "means": means}


# %% None of the products was found
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if round(times * hidden / nbytes, len(number)) == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% hidden_gib, swiglu_gib: A bfloat16 has 2 bytes: 4 were counted
def audit(number, layers, width, ffn, tokens):
    hidden, decimals, means = 16 * tokens * width, len(number.split(".")[1]), "neither"
    for what, times in {"one layer": 1, "all layers": layers}.items():
        for unit, nbytes in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{times * hidden / nbytes:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 16 * tokens * ffn / 2**30, "means": means}


# %% That is too generous
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if abs(k * hidden / size - float(number)) < 0.01 * float(number):
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% near is not equal
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if abs(k * hidden / size - float(number)) < 0.5:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% spell it as in the task
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{unit}, {what}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% wrong way round
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"all layers": 1, "one layer": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% the answer is "neither"
# breaks: is `"neither"`
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, None
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}


# %% That is in bytes
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden, "swiglu_gib": 8 * tokens * ffn, "means": means}


# %% This one was rounded
# breaks: is rounded.
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": round(hidden / 2**30, 2), "swiglu_gib": round(8 * tokens * ffn / 2**30, 2), "means": means}


# %% not with //
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{k * hidden / size:.{decimals}f}" == number:
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden // 2**30, "swiglu_gib": 8 * tokens * ffn // 2**30, "means": means}


# %% A number may end in 0
# breaks: is written exactly like the text
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            if str(round(t * c / d, p)) == number:
                means = f"{what}, {u}"
    return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}


# %% One layer was never tried
# breaks: says what the number is
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for u, d in {"GB": 10**9, "GiB": 2**30}.items():
        if f"{t * layers / d:.{p}f}" == number:
            means = f"all layers, {u}"
    return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}


# %% Only GiB was tried
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        if f"{t * c / 2**30:.{p}f}" == number:
            means = f"{what}, GiB"
    return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}


# %% made with the hidden tensor
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{8 * ffn * tokens * c / d:.{p}f}" == number:
                means = f"{what}, {u}"
    return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}


# %% hidden_gib, swiglu_gib: Text was returned
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{t * c / d:.{p}f}" == number:
                means = f"{what}, {u}"
    return {"hidden_gib": f"{t / 2**30:.3f}", "swiglu_gib": f"{8 * ffn * tokens / 2**30:.3f}", "means": means}


# %% without the input
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    means = "neither"
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            if f"{t * c / d:.{p}f}" == number:
                means = f"{what}, {u}"
    return {"hidden_gib": t / 2**30, "swiglu_gib": (8 * ffn + 2 * width) * tokens / 2**30, "means": means}


# %% The nearest product was taken
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    c = {
        f"{what}, {u}": t * c / d
        for what, c in {"one layer": 1, "all layers": layers}.items()
        for u, d in {"GB": 10**9, "GiB": 2**30}.items()
    }
    return {
        "hidden_gib": t / 2**30,
        "swiglu_gib": 8 * ffn * tokens / 2**30,
        "means": min(c, key=lambda k: abs(c[k] - float(number))),
    }


# %% only "all layers, GiB" is ever found
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            means = f"{what}, {u}" if f"{t * c / d:.{p}f}" == number else "neither"
    return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}


# %% only "one layer, GB" is ever found
def audit(number, layers, width, ffn, tokens):
    t = 8 * width * tokens
    p = len(number.split(".")[1])
    for what, c in {"one layer": 1, "all layers": layers}.items():
        for u, d in {"GB": 10**9, "GiB": 2**30}.items():
            means = f"{what}, {u}" if f"{t * c / d:.{p}f}" == number else "neither"
            return {"hidden_gib": t / 2**30, "swiglu_gib": 8 * ffn * tokens / 2**30, "means": means}
