# %% Memory is storages
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters}
    sizes = []

    def pack(t):
        if t.untyped_storage().data_ptr() not in owned:
            sizes.append(t.nbytes)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        fn()
    return sum(sizes)


# %% Compare storages, not types
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        if not isinstance(t, nn.Parameter):
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        fn()
    return sum(sizes.values())


# %% A view keeps the whole storage alive
def saved_nbytes(fn, parameters):
    seen = {p.untyped_storage().data_ptr() for p in parameters}
    total = 0

    def pack(t):
        nonlocal total
        if t.untyped_storage().data_ptr() not in seen:
            seen.add(t.untyped_storage().data_ptr())
            total += t.nbytes
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        fn()
    return total


# %% Elements were counted, not bytes
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes() // t.element_size()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        fn()
    for p in parameters:
        sizes.pop(p.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% weights behind views included
def saved_nbytes(fn, parameters):
    return counted_wrongly(fn)


# %% the parameters were counted
def saved_nbytes(fn, parameters):
    return ck.saved_tensors(fn).nbytes
