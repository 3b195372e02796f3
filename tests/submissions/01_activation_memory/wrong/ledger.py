# %% tied weight was counted twice
# breaks: A parameter that several modules share
def ledger(model, optimizer):
    parameters = [p for m in model.modules() for p in m.parameters(recurse=False)]
    trained = sum(p.nbytes for p in parameters if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in parameters),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% The frozen layer was counted
# breaks: it has no gradient and no optimizer state
def ledger(model, optimizer):
    nbytes = sum(p.nbytes for p in model.parameters())
    factor = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    return {"parameters": nbytes, "gradients": nbytes, "optimizer": factor * nbytes}


# %% bfloat16 has two
# breaks: A gradient has the dtype of its parameter
def ledger(model, optimizer):
    every = sum(4 * p.numel() for p in model.parameters())
    trained = sum(4 * p.numel() for p in model.parameters() if p.requires_grad)
    factor = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    return {"parameters": every, "gradients": trained, "optimizer": factor * trained}


# %% for each that trains, AdamW two
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": trained,
        "optimizer": 0 if optimizer == "sgd" else trained // (2 if optimizer == "momentum" else 1),
    }


# %% Plain SGD keeps nothing
# breaks: `optimizer` is `"sgd"`
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": trained,
        "optimizer": 2 * trained if optimizer == "adamw" else trained,
    }


# %% but no parameters
# breaks: Buffers do not count
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum({t.data_ptr(): t.nbytes for t in model.state_dict().values()}.values()),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% there is no .grad yet
# breaks: It has not been trained yet
def ledger(model, optimizer):
    gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": gradients,
        "optimizer": gradients * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% Ask each parameter: some are
# breaks: may have different dtypes
def ledger(model, optimizer):
    size = next(model.parameters()).element_size()
    trained = size * sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {
        "parameters": size * sum(p.numel() for p in model.parameters()),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% Numbers were counted, not bytes
def ledger(model, optimizer):
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% momentum keeps one number
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": trained,
        "optimizer": 2 * trained if optimizer == "adamw" else 0,
    }


# %% a tied weight under each of its names
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(t.nbytes for t in model.state_dict().values()),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% step counters were counted
# breaks: The step counters of AdamW
def ledger(model, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.grad = torch.zeros_like(p)
    make = {
        "sgd": lambda: torch.optim.SGD(trained),
        "momentum": lambda: torch.optim.SGD(trained, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(trained),
    }[optimizer]()
    make.step()
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(p.grad.nbytes for p in trained),
        "optimizer": sum(t.nbytes for s in make.state.values() for t in s.values() if torch.is_tensor(t)),
    }


# %% parameters: The frozen layer was left out
# breaks: A frozen parameter counts as a parameter
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": trained,
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% optimizer: Four bytes were taken for each number
# breaks: and so does the optimizer's state
def ledger(model, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": sum(p.nbytes for p in trained),
        "optimizer": 4 * sum(p.numel() for p in trained) * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% parameters, gradients, optimizer: Only the outermost modules were asked
# breaks: of any structure
def ledger(model, optimizer):
    seen = {}
    for child in model.children():
        for p in child.parameters(recurse=False):
            seen[p] = p.nbytes
    trained = sum(size for p, size in seen.items() if p.requires_grad)
    return {
        "parameters": sum(seen.values()),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% Only weights and biases were counted
# breaks: of any structure
def ledger(model, optimizer):
    seen = {p for m in model.modules() for p in (getattr(m, "weight", None), getattr(m, "bias", None)) if p is not None}
    trained = sum(p.nbytes for p in seen if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in seen),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% for each that trains, AdamW two
# breaks: `optimizer` is `"sgd"`
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {"parameters": sum(p.nbytes for p in model.parameters()), "gradients": trained, "optimizer": 2 * trained}
