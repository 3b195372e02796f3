# %% with a real optimizer
def ledger(model, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    make = {
        "sgd": lambda: torch.optim.SGD(trained, lr=0.1),
        "momentum": lambda: torch.optim.SGD(trained, lr=0.1, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(trained, lr=0.1),
    }[optimizer]()
    for p in trained:
        p.grad = torch.zeros_like(p)
    make.step()
    state = [t for s in make.state.values() for name, t in s.items() if torch.is_tensor(t) and name != "step"]
    return dict(
        parameters=sum(p.numel() * p.element_size() for p in model.parameters()),
        gradients=sum(p.grad.nbytes for p in trained),
        optimizer=sum(t.nbytes for t in state),
    )


# %% NumPy's integers, and every module asked, each parameter once
def ledger(model, optimizer):
    import numpy as np

    seen = {id(p): p for m in model.modules() for p in m.parameters(recurse=False)}.values()
    size = np.array([p.numel() * p.element_size() for p in seen])
    trains = np.array([p.requires_grad for p in seen])
    return {
        "parameters": size.sum(),
        "gradients": size[trains].sum(),
        "optimizer": {"sgd": 0, "momentum": 1}.get(optimizer, 2) * size @ trains,
    }
