# %% with decimals
def audit(number, layers, width, ffn, tokens):
    from decimal import Decimal

    printed = Decimal(number)
    one = Decimal(tokens * width * 4 * 2)
    fitting = [
        f"{who}, {unit}"
        for who, total in (("all layers", one * layers), ("one layer", one))
        for unit, per in (("GiB", 1024**3), ("GB", 1000**3))
        if (total / per).quantize(printed) == printed
    ]
    tensor = torch.empty(tokens, ffn, dtype=torch.bfloat16, device="meta")
    return dict(
        means=(fitting or ["neither"])[0],
        swiglu_gib=4 * tensor.nbytes / 1024**3,
        hidden_gib=float(one / 1024**3),
    )


# %% numbers rounded, not texts
def audit(number, layers, width, ffn, tokens):
    hidden, means = 8 * tokens * width, "neither"
    decimals = len(number.split(".")[1])
    for what, k in {"one layer": 1, "all layers": layers}.items():
        for unit, size in {"GB": 10**9, "GiB": 2**30}.items():
            if round(k * hidden / size, decimals) == float(number):
                means = f"{what}, {unit}"
    return {"hidden_gib": hidden / 2**30, "swiglu_gib": 8 * tokens * ffn / 2**30, "means": means}
