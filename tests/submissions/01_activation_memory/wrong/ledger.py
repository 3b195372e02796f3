# %% tied weight was counted twice
def ledger(model, optimizer):
    parameters = [p for m in model.modules() for p in m.parameters(recurse=False)]
    trained = sum(p.nbytes for p in parameters if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in parameters),
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% The frozen layer was counted
def ledger(model, optimizer):
    nbytes = sum(p.nbytes for p in model.parameters())
    factor = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
    return {"parameters": nbytes, "gradients": nbytes, "optimizer": factor * nbytes}


# %% bfloat16 has two
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
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": trained,
        "optimizer": 2 * trained if optimizer == "adamw" else trained,
    }


# %% but no parameters
def ledger(model, optimizer):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    return {
        "parameters": sum(t.nbytes for t in model.state_dict(keep_vars=True).values()) - model[0].weight.nbytes,
        "gradients": trained,
        "optimizer": trained * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% there is no .grad yet
def ledger(model, optimizer):
    gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    return {
        "parameters": sum(p.nbytes for p in model.parameters()),
        "gradients": gradients,
        "optimizer": gradients * {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer],
    }


# %% not only the first
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
