# %% with the book's library
def stored_by(model, x):
    with ck.watch(model) as w:
        out = model(x)
    root = type(model).__name__
    return {("" if row.module == root else row.module): row.saved for row in w.rows}


# %% forwards replaced for so long, storages held
def stored_by(model, x):
    where, kept = [""], {}
    parameters = {p.data_ptr() for p in model.parameters()}

    def wrap(name, forward):
        def inner(*args):
            where.append(name)
            try:
                return forward(*args)
            finally:
                where.pop()

        return inner

    for name, module in model.named_modules():
        module.forward = wrap(name, module.forward)

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept.setdefault(storage.data_ptr(), (where[-1], storage))
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        model(x)
    for module in model.modules():
        del module.forward
    total = Counter()
    for name, storage in kept.values():
        total[name] += storage.nbytes()
    return total


# %% one wrapper around every call, a weak table of storages
def stored_by(model, x):
    names = {id(module): name for name, module in model.named_modules()}
    inside, first, call = [], {}, nn.Module.__call__

    def wrapped(module, *args, **named):
        inside.append(names.get(id(module)))
        try:
            return call(module, *args, **named)
        finally:
            inside.pop()

    def pack(t):
        storage = t.untyped_storage()
        first.setdefault(storage._cdata, (inside[-1], storage))
        return t

    nn.Module.__call__ = wrapped
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            out = model(x)
    finally:
        nn.Module.__call__ = call
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    result = dict.fromkeys(names.values(), 0)
    for key, (name, storage) in first.items():
        result[name] += 0 if key in own else storage.nbytes()
    return result
