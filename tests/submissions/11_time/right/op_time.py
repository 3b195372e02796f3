# %% one table of shapes
def op_time(kind, sizes, itemsize, peak, bandwidth):
    n, d, k = [*sizes, 0][:3]
    shapes = {"matmul": [(n, d), (d, k), (n, k)], "gelu": [(n, d)] * 2, "add": [(n, d)] * 3}[kind]
    nbytes = itemsize * sum(rows * columns for rows, columns in shapes)
    flops = 2 * n * d * k
    times = {"bytes": nbytes / bandwidth, "FLOPs": flops / peak}
    limit = max(times, key=times.get)
    return {"limit": limit, "seconds": times[limit], "nbytes": nbytes, "flops": flops}


# %% by the ridge
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops = n * k * (d + d)
        nbytes = itemsize * (d * (n + k) + n * k)
    else:
        flops = 0
        nbytes = itemsize * sizes[0] * sizes[1] * (3 if kind == "add" else 2)
    if flops / nbytes > peak / bandwidth:
        return dict(flops=flops, nbytes=nbytes, seconds=flops / peak, limit="FLOPs")
    return dict(flops=flops, nbytes=nbytes, seconds=nbytes / bandwidth, limit="bytes")


# %% measured on fake tensors
def op_time(kind, sizes, itemsize, peak, bandwidth):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        if kind == "matmul":
            read = [torch.empty(sizes[:2]), torch.empty(sizes[1:])]
            y = read[0] @ read[1]
        elif kind == "gelu":
            read = [torch.empty(sizes)]
            y = torch.nn.functional.gelu(read[0])
        else:
            read = [torch.empty(sizes), torch.empty(sizes)]
            y = read[0] + read[1]
    nbytes = sum(t.numel() for t in (*read, y)) * itemsize
    flops = counter.get_total_flops()
    seconds = max(flops / peak, nbytes / bandwidth)
    return {"flops": flops, "nbytes": nbytes, "seconds": seconds, "limit": ["bytes", "FLOPs"][flops / peak == seconds]}


# %% with match, and other names for the limit at first
def op_time(kind, sizes, itemsize, peak, bandwidth):
    match kind, sizes:
        case "matmul", (n, d, k):
            flops, numbers = 2 * n * k * d, n * (d + k) + d * k
        case "gelu", (n, d):
            flops, numbers = 0, n * d + n * d
        case "add", (n, d):
            flops, numbers = 0, n * d + n * d + n * d
    slow = sorted([(flops / peak, "compute"), (numbers * itemsize / bandwidth, "memory")])[-1]
    words = {"compute": "flops", "memory": "Bytes"}
    return {"flops": flops, "nbytes": numbers * itemsize, "seconds": slow[0], "limit": words[slow[1]]}


# %% in fractions
def op_time(kind, sizes, itemsize, peak, bandwidth):
    from fractions import Fraction

    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        flops, numbers = 0, sizes[0] * sizes[1] * (2 + (kind == "add"))
    computing, moving = Fraction(flops, peak), Fraction(numbers * itemsize, bandwidth)
    return {
        "flops": flops,
        "nbytes": numbers * itemsize,
        "seconds": float(max(computing, moving)),
        "limit": "FLOPs" if computing > moving else "bytes",
    }
