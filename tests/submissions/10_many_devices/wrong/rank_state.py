# %% The gathered layer is missing
# breaks: The layer that runs is in memory a second time
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
# breaks: The largest layer may be anywhere
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


# %% not for this rank's share
def rank_state(layers, ranks, way):
    total = sum(layers)
    if way == "fsdp":
        return (16 * total + 2 * max(layers)) // ranks
    return 16 * total if way == "ddp" else 4 * total + 12 * total // ranks


# %% ddp, optimizer: Nothing is gathered here
# breaks: every rank has everything
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total, "optimizer": 4 * total + 12 * total // ranks, "fsdp": 16 * total // ranks}
    return held[way] + 2 * max(layers)


# %% ddp, optimizer, fsdp: Those are the bytes of all ranks together
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total * ranks, "optimizer": 4 * total * ranks + 12 * total}
    return held.get(way, 16 * total + 2 * max(layers) * ranks)


# %% A rank gathers a layer once
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total, "optimizer": 4 * total + 12 * total // ranks}
    return held.get(way, 16 * total // ranks + 2 * max(layers) * ranks)


# %% The weights and gradients are missing
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total, "optimizer": 12 * total // ranks}
    return held.get(way, 16 * total // ranks + 2 * max(layers))


# %% optimizer: The other way round
# breaks: the optimizer's bytes are sharded
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total, "optimizer": 12 * total + 4 * total // ranks}
    return held.get(way, 16 * total // ranks + 2 * max(layers))


# %% FSDP shards the gradients and the optimizer's bytes, too
# breaks: everything is sharded
def rank_state(layers, ranks, way):
    total = sum(layers)
    held = {"ddp": 16 * total, "optimizer": 4 * total + 12 * total // ranks}
    return held.get(way, 14 * total + 2 * total // ranks + 2 * max(layers))


# %% of the largest layer alone
def rank_state(layers, ranks, way):
    most = max(layers)
    return {"ddp": 16 * most, "optimizer": 4 * most + 12 * most // ranks}.get(way, 16 * most // ranks + 2 * most)


# %% ddp: Those are parameters
def rank_state(layers, ranks, way):
    total = sum(layers)
    return {"ddp": total, "optimizer": total, "fsdp": total // ranks + max(layers)}[way]


# %% has changed its argument `layers`
# breaks: does not change its arguments
def rank_state(layers, ranks, way):
    layers.sort()
    parameters = sum(layers)
    if way == "ddp":
        return 16 * parameters
    if way == "optimizer":
        return 4 * parameters + 12 * parameters // ranks
    return 16 * parameters // ranks + 2 * layers[-1]
