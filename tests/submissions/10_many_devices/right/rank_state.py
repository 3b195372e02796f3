# %% a table of what is whole
def rank_state(layers, ranks, way):
    whole = {"ddp": 16, "optimizer": 4, "fsdp": 0}[way]
    held = sum(n * whole + (n // ranks) * (16 - whole) for n in layers)
    return held + (sorted(layers)[-1] * 2 if way == "fsdp" else 0)


# %% with NumPy, layer by layer
def rank_state(layers, ranks, way):
    import numpy as np

    layers = np.array(layers)
    whole = {"ddp": 16, "optimizer": 4, "fsdp": 0}[way]
    held = (layers * whole + layers * (16 - whole) / ranks).sum()
    return held + (2 * layers.max() if way == "fsdp" else 0)
