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


# %% AdamW keeps two moments
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
