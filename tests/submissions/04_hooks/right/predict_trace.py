# %% by listing the events
def predict_trace(layers, inside, kind):
    first = [kind != "reentrant"] * inside
    rest = [True] * (layers - inside)
    again = {"none": [], "reentrant": [True] * inside, "nonreentrant": [True] * (inside - 1)}[kind]
    said = first + rest + again
    return [len(said), said.count(True)]


# %% measured: the published hook, on a chain of its own
def predict_trace(layers, inside, kind):
    said, all_layers = [], chain(layers, 4)
    part = nn.Sequential(*all_layers[:inside]) if kind == "none" else Checkpointed(*all_layers[:inside])
    part.reentrant = kind == "reentrant"
    for layer in all_layers:
        layer.register_forward_hook(lambda module, inputs, out: said.append(out.requires_grad))
    model = nn.Sequential(part, *all_layers[inside:])
    model(torch.randn(3, 4, requires_grad=True)).sum().backward()
    return len(said), said.count(True)
