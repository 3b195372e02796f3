# %% two FLOPs, not one
# breaks: counts multiplications and additions
def price(b, m, inner, k, itemsize):
    flops = b * m * k * inner
    nbytes = b * m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% The batch is missing
# breaks: All `b` pairs count
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * m * inner * k, m * k * itemsize
    return flops, nbytes, flops / nbytes


# %% numbers of four bytes
# breaks: `itemsize` is how many bytes one number has: 1
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, 4 * b * m * k
    return flops, nbytes, inner / 2


# %% What is kept or recomputed is the result
# breaks: without the matrices that are multiplied
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
# breaks: It is not rounded
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * m * k * itemsize
    return flops, nbytes, flops // nbytes


# %% bytes, FLOPs per byte: Those are the factors' bytes besides the result's
def price(b, m, inner, k, itemsize):
    flops, nbytes = 2 * b * m * inner * k, b * (m * inner + inner * k + m * k) * itemsize
    return flops, nbytes, flops / nbytes


# %% FLOPs, FLOPs per byte: That is one addition fewer
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


# %% FLOPs, FLOPs per byte: Each number of a result is a sum
def price(b, m, inner, k, itemsize):
    f, n = 2 * b * m * k, b * m * k * itemsize
    return f, n, f / n


# %% It was rounded
def price(b, m, inner, k, itemsize):
    f, n = 2 * b * m * inner * k, b * m * k * itemsize
    return f, n, round(f / n)


# %% bytes: Those are elements
def price(b, m, inner, k, itemsize):
    results = b * m * k
    return 2 * inner * results, results, 2 * inner / itemsize


# %% eight times as large
def price(b, m, inner, k, itemsize):
    flops, nbits = 2 * b * m * inner * k, 8 * b * m * k * itemsize
    return flops, nbits, 8 * flops / nbits
