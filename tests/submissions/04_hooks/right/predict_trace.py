# %% by listing the events
def predict_trace(layers, inside, kind):
    first = [kind != "reentrant"] * inside
    rest = [True] * (layers - inside)
    again = {"none": [], "reentrant": [True] * inside, "nonreentrant": [True] * (inside - 1)}[kind]
    said = first + rest + again
    return [len(said), said.count(True)]


# %% measured
def predict_trace(layers, inside, kind):
    return measured_trace(layers, inside, kind)
