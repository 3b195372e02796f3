# %% early stop leaves it half-way
# breaks: prints a line each time its forward ends
def predict_trace(layers, inside, kind):
    if kind == "none":
        return layers, layers
    return layers + inside, layers if kind == "reentrant" else layers + inside


# %% runs with gradients on, both times
def predict_trace(layers, inside, kind):
    if kind == "none":
        return layers, layers
    return layers + inside - (kind == "nonreentrant"), layers - (kind == "nonreentrant")


# %% under no_grad at first
def predict_trace(layers, inside, kind):
    lines = layers + {"none": 0, "reentrant": inside, "nonreentrant": inside - 1}[kind]
    return lines, lines


# %% The recomputation was forgotten
# breaks: a layer whose forward ends twice prints two lines
def predict_trace(layers, inside, kind):
    return layers, layers - inside if kind == "reentrant" else layers


# %% has no early stop
def predict_trace(layers, inside, kind):
    if kind == "none":
        return layers, layers
    if kind == "reentrant":
        return layers + inside - 1, layers - 1
    return layers + inside - 1, layers + inside - 1


# %% typed in where it should be computed
def predict_trace(layers, inside, kind):
    return {"none": (9, 9), "reentrant": (15, 9), "nonreentrant": (14, 14)}[kind]


# %% Early stop cuts one layer
def predict_trace(layers, inside, kind):
    lines = layers + {"none": 0, "reentrant": inside, "nonreentrant": inside - 2}[kind]
    return lines, layers if kind == "reentrant" else lines


# %% And the first run is under no_grad
def predict_trace(layers, inside, kind):
    if kind == "nonreentrant":
        return layers + inside, layers
    return (layers, layers) if kind == "none" else (layers + inside - 1, layers + inside - 1)


# %% Only the layers of the segment are recomputed
def predict_trace(layers, inside, kind):
    return {"none": (layers, layers), "reentrant": (2 * layers, layers)}.get(kind, (2 * layers - 1, 2 * layers - 1))


# %% Without a checkpoint every layer runs once
# breaks: (no checkpoint)
def predict_trace(layers, inside, kind):
    if kind == "nonreentrant":
        return layers + inside - 1, layers + inside - 1
    return layers + inside, layers


# %% `layers` counts all layers of the chain
# breaks: including those in the segment
def predict_trace(layers, inside, kind):
    layers += inside
    if kind == "none":
        return layers, layers
    if kind == "reentrant":
        return layers + inside, layers
    return layers + inside - 1, layers + inside - 1


# %% A segment of one layer is a segment like any other
# breaks: The segment has 1 layer or more
def predict_trace(layers, inside, kind):
    lines = {"none": layers, "reentrant": layers + inside, "nonreentrant": layers + inside - 1}[kind]
    if inside == 1:
        lines = layers  # nothing to recompute, surely
    return lines, layers if kind == "reentrant" else lines


# %% The segment may be the whole chain
# breaks: It may be the whole chain
def predict_trace(layers, inside, kind):
    if kind == "none":
        return layers, layers
    if kind == "reentrant":
        return layers + inside, layers
    cut = 1 if inside < layers else 0
    return layers + inside - cut, layers + inside - cut


# %% reentrant: 1 of 6 values differ
def predict_trace(layers, inside, kind):
    """An output that nobody inside the chain needs is taken for one without a gradient."""
    if kind == "none":
        return layers, layers
    if kind == "reentrant":
        return layers + inside, layers if layers > inside else 0
    return layers + inside - 1, layers + inside - 1
