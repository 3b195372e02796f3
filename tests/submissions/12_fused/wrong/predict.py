# %% Numbers were counted, and not bytes: each takes `itemsize` bytes
# breaks: takes `itemsize` bytes
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return numbers[which], products[which] * product


# %% Each number was taken to have 4 bytes. It has `itemsize`
# breaks: takes `itemsize` bytes
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return 4 * numbers[which], products[which] * product


# %% Q, K and V were counted. They are inputs, and do not count here
# breaks: do not count
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * (b + 3 * c), "checkpoint": 3 * a * b * c, "tiles": a * b * (4 * c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% Plain attention was taken to save scores and probabilities. Softmax saves its output only, and scaling saves nothing
# breaks: computes softmax(QKᵀ)V
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": 2 * a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% Every head has a square of its own: the number of heads is missing
# breaks: is the number of heads
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The square has b × b scores per head, and not b × c
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * c, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% With tiles, the logsumexp is saved as well: one number per row and head
# breaks: one number per row and head
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * c}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% With tiles, the output is saved as well. Without it, δ could not be computed before the first tile
# breaks: saves its inputs, its output
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% With tiles, one number per row is saved, the logsumexp. It contains the maximum and the sum
# breaks: one number per row and head
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 2)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The logsumexp is one number per row and head, and not one number per row for all heads together
# breaks: one number per row and head
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * c + b}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% An ordinary checkpoint around attention saves nothing besides Q, K and V
# breaks: checkpoint around it
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": a * b * b, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The output of a checkpoint is not saved by the checkpoint. (A later layer may save it as its input.)
# breaks: checkpoint around it
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": a * b * c, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The plain MLP saves four tensors of the hidden width: the gate, SiLU of the gate, up, and their product
# breaks: computes `(silu
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 3 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The plain MLP saves four tensors of the hidden width: SiLU's input is the gate, and SiLU's output is a factor of the product
# breaks: computes `(silu
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 5 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The input of the MLP was counted. Inputs do not count here
# breaks: do not count
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c + a * b, "two": 2 * a * c + a * b, "checkpoint": a * b}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The weights were counted. They are there anyway, and do not count here
# breaks: the weights do not count
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c + 3 * b * c, "two": 2 * a * c + 3 * b * c, "checkpoint": 3 * b * c}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The gate and up are two tensors of the hidden width
# breaks: saves the gate and up
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The product of SiLU and up is computed again from the gate and up. It is not saved
# breaks: computes SiLU and the product again
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 3 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The hidden tensors are c wide. They were counted with the width of x
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * b, "two": 2 * a * b, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% A checkpoint around the MLP saves nothing besides its inputs
# breaks: checkpoint around the MLP
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 2 * a * c}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% A multiplication and an addition are two FLOPs: every product was counted half
# breaks: takes 2 · n
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% These are the FLOPs of the forward pass only. The backward pass of a product runs two more
# breaks: forward and backward
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 2, "checkpoint": 2, "tiles": 2}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 3, "two": 3, "checkpoint": 3}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% Early stop was forgotten: the last product of the segment does not run again
# breaks: with early stop
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 8, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 12}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The products that run again were forgotten
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 6, "tiles": 6}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 9}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The tiles run one product again, that of the scores. The output is saved, so the product with V does not run again
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 8}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% The tiles run one product again in the backward pass, that of the scores
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 6}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% A checkpoint around the MLP repeats two products, gate and up. One was counted
# breaks: checkpoint around the MLP
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 10}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% SiLU and the product are computed again without any matrix product: with two tensors saved, no product runs again
# breaks: computes SiLU and the product again
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * a * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 11, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product


# %% Attention has a product of this size for every head: the number of heads is missing in the FLOPs
def predict(way, a, b, c, itemsize):
    if way.startswith("attention"):
        numbers = {"plain": a * b * b, "checkpoint": 0, "tiles": a * b * (c + 1)}
        products = {"plain": 6, "checkpoint": 7, "tiles": 7}
        product = 2 * b * b * c
    else:
        numbers = {"plain": 4 * a * c, "two": 2 * a * c, "checkpoint": 0}
        products = {"plain": 9, "two": 9, "checkpoint": 11}
        product = 2 * a * b * c
    which = way.split(", ")[1]
    return itemsize * numbers[which], products[which] * product
