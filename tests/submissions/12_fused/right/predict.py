# %% it measures instead
def predict(way, a, b, c, itemsize):
    return measured(way, (a, b, c), {4: torch.float32, 8: torch.float64}[itemsize])


# %% a table of pairs, and tensors
def predict(way, a, b, c, itemsize):
    square, q, hidden = a * b * b, a * b * c, a * c
    table = {
        "attention, plain": (square, 6),
        "attention, checkpoint": (0, 7),
        "attention, tiles": (q + a * b, 7),
        "mlp, plain": (4 * hidden, 9),
        "mlp, two": (2 * hidden, 9),
        "mlp, checkpoint": (0, 11),
    }
    numbers, products = table[way]
    one = 2 * a * b * c * (b if way[0] == "a" else 1)
    return torch.tensor(numbers * itemsize), torch.tensor(products * one)


# %% one if after another
def predict(way, a, b, c, itemsize):
    if way == "attention, plain":
        return itemsize * a * b**2, 6 * 2 * a * b**2 * c
    if way == "attention, checkpoint":
        return 0, 2 * a * b**2 * c * (2 + 1 + 4)
    if way == "attention, tiles":
        return itemsize * (a * b * c + a * b), 2 * a * b**2 * c * (2 + 5)
    step = 3 * (3 * 2 * a * b * c)
    if way == "mlp, plain":
        return itemsize * 4 * a * c, step
    if way == "mlp, two":
        return itemsize * 2 * a * c, step
    return 0, step + 2 * (2 * a * b * c)


# %% floats without a fraction, in a list
def predict(way, a, b, c, itemsize):
    kind, how = way.split(", ")
    forward = 2.0 if kind == "attention" else 3.0
    again = {"plain": 0.0, "two": 0.0, "tiles": 1.0, "checkpoint": forward - 1}[how]
    one = 2.0 * a * b * c * (b if kind == "attention" else 1.0)
    numbers = {"plain": b / c if kind == "attention" else 4.0, "two": 2.0, "checkpoint": 0.0, "tiles": 1 + 1 / c}[how]
    unit = a * b * c if kind == "attention" else a * c
    return [float(round(numbers * unit * itemsize)), (3 * forward + again) * one]


# %% by what each op saves
def predict(way, a, b, c, itemsize):
    saved = []
    if way == "attention, plain":
        saved = [a * b * b]  # softmax's output, shared with the product
    elif way == "attention, tiles":
        saved = [a * b * c, a * b]  # output, logsumexp
    elif way == "mlp, plain":
        saved = [a * c] * 4  # gate, SiLU, up, product
    elif way == "mlp, two":
        saved = [a * c] * 2
    products = {"attention": [6, 7, 7], "mlp": [9, 9, 11]}[way.split(",")[0]]
    order = ["plain", "tiles" if way.startswith("a") else "two", "checkpoint"]
    flops = products[order.index(way.split(", ")[1])] * 2 * a * b * c
    return sum(saved) * itemsize, flops * b if way.startswith("attention") else flops
