# %% stays with the tensor
# breaks: is not cut off
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    if rounded <= MiB:
        return {"rounded": rounded, "pool": "small", "segment": 2 * MiB, "allocated": rounded}
    segment = 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    return {"rounded": rounded, "pool": "large", "segment": segment, "allocated": rounded}


# %% pool, segment: A request of exactly 1 MiB was sent to the large pool
# breaks: is `"small"` or `"large"`
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded < MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% exactly 10 MiB
# breaks: is the size of the segment
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded <= 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% it must be more than 1 MiB
# breaks: is not cut off
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= (512 if pool == "small" else MiB)
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% not rounded up any further
# breaks: rounded up to a multiple of 512
def first_block(nbytes):
    rounded = (nbytes // 512 + 1) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% That is what is reserved
# breaks: is the size of the block that the tensor gets
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": segment}


# %% 512 B is the small pool's rule
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    cut = segment - rounded >= 512
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% Rounded down, or not at all
def first_block(nbytes):
    rounded = nbytes // 512 * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% allocated: That is always the rounded request. From 10 MiB on a segment is a multiple of 2 MiB
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else rounded
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% segment, allocated: From 10 MiB on a segment is rounded up to a multiple of 2 MiB, not of 20 MiB
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else -(-rounded // (20 * MiB)) * 20 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% pool: The small pool ends at 1 MiB
# breaks: is `"small"` or `"large"`
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    segment = 2 * MiB if rounded <= MiB else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if rounded <= MiB else rest > MiB
    pool = "small" if rounded < 10 * MiB else "large"
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% segment: Rounding comes first
# breaks: is the size of the segment
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if nbytes < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% segment, allocated: A segment of the large pool has 20 MiB
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest >= 512 if pool == "small" else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% allocated: In the small pool a rest of 512 B or more is cut off
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if rounded <= MiB else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    cut = rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if cut else segment}


# %% pool: 
# breaks: It depends on the rounded request
def first_block(nbytes):
    rounded = -(-nbytes // 512) * 512
    pool = "small" if nbytes < MiB else "large"
    if rounded <= MiB:
        segment = 2 * MiB
    else:
        segment = 20 * MiB if rounded < 10 * MiB else -(-rounded // (2 * MiB)) * 2 * MiB
    rest = segment - rounded
    is_cut = rest >= 512 if rounded <= MiB else rest > MiB
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if is_cut else segment}
