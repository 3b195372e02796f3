# %% a table of what is whole
def rank_state(layers, ranks, way):
    whole = {"ddp": 16, "optimizer": 4, "fsdp": 0}[way]
    held = sum(n * whole + (n // ranks) * (16 - whole) for n in layers)
    return held + (sorted(layers)[-1] * 2 if way == "fsdp" else 0)
