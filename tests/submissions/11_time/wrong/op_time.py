# %% one multiplication and one addition
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The inner length d is missing
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% the width k is missing
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% the rows n are missing
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% without the backward pass
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 3 * 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% and not d − 1
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = n * k * (d + d - 1), n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% FLOPs are not multiplied by the bytes of a number
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k * itemsize, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% GELU and a sum count as 0 FLOPs
# breaks: and 0 for the others
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = n * d, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% A sum counts as 0 FLOPs
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = n * d * (kind == "add"), n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The result of the product is written, too
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The result is written, too
# breaks: because it is written
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 1, "add": 2}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The inputs are read, too
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * 1
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The second matrix of the product is read as well
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The first matrix of the product is read as well
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% are not read for each row
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% A sum has two inputs and a result
# breaks: adds two such tensors
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * 2
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% GELU has one input and a result
# breaks: takes GELU of each element
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * 3
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% two tensors, not one
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 1, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% All three matrices of the product are different
# breaks: multiplies an (n, d) matrix
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, 3 * n * d
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% A number has itemsize bytes
# breaks: A number has `itemsize` bytes
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * 2
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% bits were counted
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize * 8
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% take the larger of the two, not the sum
# breaks: the time under the roofline
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": computing + moving, "limit": limit}


# %% take the larger time, not the smaller
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": min(computing, moving), "limit": limit}


# %% Only the FLOPs were timed
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": computing, "limit": limit}


# %% Only the bytes were timed
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": moving, "limit": limit}


# %% The mean of the two times
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": (computing + moving) / 2, "limit": limit}


# %% This is in microseconds
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": 1e6 * max(computing, moving), "limit": limit}


# %% This is in milliseconds
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": 1000 * max(computing, moving), "limit": limit}


# %% Peak and bandwidth are the wrong way round
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / bandwidth, nbytes / peak
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The two limits are the wrong way round
# breaks: whichever of the two takes longer
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing < moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% The limit is spelt "FLOPs" or "bytes"
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "compute" if computing > moving else "memory"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% FLOPs and bytes are not compared with each other
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if flops > nbytes else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% Not every product is limited by its FLOPs
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if kind == "matmul" else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% A product is not always limited by bytes
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if False else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% An op without FLOPs cannot be limited by them
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if True else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving), "limit": limit}


# %% limit: The dict that was returned lacks this entry
def op_time(kind, sizes, itemsize, peak, bandwidth):
    if kind == "matmul":
        n, d, k = sizes
        flops, numbers = 2 * n * d * k, n * d + d * k + n * k
    else:
        n, d = sizes
        flops, numbers = 0, n * d * {"gelu": 2, "add": 3}[kind]
    nbytes = numbers * itemsize
    computing, moving = flops / peak, nbytes / bandwidth
    limit = "FLOPs" if computing > moving else "bytes"
    return {"flops": flops, "nbytes": nbytes, "seconds": max(computing, moving)}
