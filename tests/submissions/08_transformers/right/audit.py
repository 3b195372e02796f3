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
