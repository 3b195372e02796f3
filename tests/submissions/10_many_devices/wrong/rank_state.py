# %% The gathered layer is missing
def rank_state(layers, ranks, way):
    total = sum(layers)
    return {"ddp": 16 * total, "optimizer": 4 * total + 12 * total // ranks, "fsdp": 16 * total // ranks}[way]


# %% One layer is gathered at a time
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "fsdp":
        return 2 * total + 16 * total // ranks
    return 16 * total if way == "ddp" else 4 * total + 12 * total // ranks


# %% not the largest one
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "fsdp":
        return 16 * total // ranks + 2 * layers[-1]
    return 16 * total if way == "ddp" else 4 * total + 12 * total // ranks


# %% DDP shards nothing
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "ddp":
        return 16 * total // ranks
    return 4 * total + 12 * total // ranks if way == "optimizer" else 16 * total // ranks + 2 * max(layers)


# %% Gradients are replicated here
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "ddp":
        return 16 * total
    return 2 * total + 14 * total // ranks if way == "optimizer" else 16 * total // ranks + 2 * max(layers)


# %% Only the weights of a layer are gathered
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "fsdp":
        return 16 * (total // ranks + max(layers))
    return 16 * total if way == "ddp" else 4 * total + 12 * total // ranks


# %% nothing is subtracted
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "fsdp":
        return 16 * total // ranks + 2 * (max(layers) - max(layers) // ranks)
    return 16 * total if way == "ddp" else 4 * total + 12 * total // ranks
