# %% two FLOPs, not one
def price(b, m, inner, k, itemsize):
    flops = b * m * k * inner
    nbytes = b * m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% The batch is missing
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * m * inner * k, m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% numbers of four bytes
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, 4 * b * m * k
    return flops, nbytes, inner / 2


# %% What is kept or recomputed is the result
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * (m * inner + inner * k) * itemsize
    return flops, nbytes, flops / nbytes


# %% How many bytes has each
def price(b, m, inner, k, itemsize):
    flops, elements = 2 * b * m * inner * k, b * m * k
    return flops, elements, flops / elements


# %% Upside down
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * m * k * itemsize
    return flops, nbytes, nbytes / flops


# %% It was rounded
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * m * k * itemsize
    return flops, nbytes, flops // nbytes


# %% bytes, FLOPs per byte: Those are the factors' bytes besides the result's
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * (m * inner + inner * k + m * k) * itemsize
    return flops, nbytes, flops / nbytes


# %% FLOPs, FLOPs per byte: One addition fewer for each result
def price(b, m, inner, k, itemsize):
    flops, nbytes = b * m * k * (2 * inner - 1), b * m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% FLOPs and bytes have changed places
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * m * k * itemsize
    return nbytes, flops, flops / nbytes


# %% returned None. Is a `return` missing?
def price(b, m, inner, k, itemsize):
    print(2 * b * m * inner * k, b * m * k * itemsize, 2 * inner / itemsize)


# %% three numbers were asked for
def price(b, m, inner, k, itemsize):
    return 2 * b * m * inner * k, b * m * k * itemsize


# %% bytes, FLOPs per byte: The batch is missing
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% FLOPs, FLOPs per byte: The batch is missing
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * m * inner * k, b * m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% FLOPs, FLOPs per byte: Each result is a sum of `inner` products
def price(b, m, inner, k, itemsize):
    f, n = 2 * b * m * k, b * m * k * itemsize
    return f, n, f / n


# %% It was rounded
def price(b, m, inner, k, itemsize):
    f, n = 2 * b * m * inner * k, b * m * k * itemsize
    return f, n, round(f / n)
