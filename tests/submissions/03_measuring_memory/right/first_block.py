# %% asks the library's rules
def first_block(nbytes):
    from ckptlib.cuda.allocator_rules import CUDA_RULES as rules

    size = rules.round_size(nbytes)
    segment = rules.segment_size(size)
    cut = rules.should_split(segment, size, rules.pool(size))
    return {"rounded": size, "pool": rules.pool(size), "segment": segment, "allocated": size if cut else segment}


# %% early returns, and math.ceil of whole numbers
def first_block(nbytes):
    blocks = nbytes // 512 + (nbytes % 512 > 0)
    answer = {"rounded": 512 * blocks, "pool": "large", "segment": 20 * MiB, "allocated": 512 * blocks}
    if blocks <= 2048:
        answer |= {"pool": "small", "segment": 2 * MiB}
        return answer
    if blocks < 20480:
        return answer
    while answer["segment"] - 2 * MiB >= answer["rounded"]:
        answer["segment"] -= 2 * MiB
    while answer["segment"] < answer["rounded"]:
        answer["segment"] += 2 * MiB
    if answer["segment"] - answer["rounded"] <= MiB:
        answer["allocated"] = answer["segment"]
    return answer
