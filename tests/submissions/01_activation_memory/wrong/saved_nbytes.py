# %% Memory is storages
# breaks: A storage counts once
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
# breaks: even if only a view of it is saved
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
# breaks: All bytes of a storage count
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


# %% Views were counted, each with its own size
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.data_ptr()] = t.nbytes
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    for p in parameters:
        sizes.pop(p.data_ptr(), None)
    return sum(sizes.values())


# %% Views of one storage begin at addresses of their own
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    for p in parameters:
        sizes.pop(p.data_ptr(), None)
    return sum(sizes.values())


# %% One storage was counted, of many of the same size
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters}
    sizes = set()

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in owned:
            sizes.add(storage.nbytes())
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes)


# %% weights behind a view:
def saved_nbytes(fn, parameters):  # nothing is kept: addresses are used again
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()

    with saved_tensors_hooks(pack, lambda t: t):
        fn()
    for p in parameters:
        sizes.pop(p.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% have one shape here
def saved_nbytes(fn, parameters):
    shapes = {p.shape for p in parameters} | {p.t().shape for p in parameters}
    sizes = {}

    def pack(t):
        if t.shape not in shapes:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes.values())


# %% All parameters were subtracted
def saved_nbytes(fn, parameters):
    return ck.saved_tensors(fn).nbytes - sum(p.nbytes for p in parameters)


# %% A float64 has eight
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = 4 * (t.untyped_storage().nbytes() // t.element_size())
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    for p in parameters:
        sizes.pop(p.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% one storage twice, weights behind a view, three views of one storage: Tensors were added up
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters}
    sizes = []

    def pack(t):
        if t.untyped_storage().data_ptr() not in owned:
            sizes.append(t.untyped_storage().nbytes())
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes)


# %% nor whether it needs a gradient
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        if not t.requires_grad:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes.values())


# %% indices: Only floating-point tensors were counted
# breaks: of any dtype
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters}
    return sum(row.nbytes for row in ck.saved_tensors(fn) if row.kind != "parameter" and row.dtype.is_floating_point)


# %% only what is listed: What does not count is what `parameters` lists
# breaks: `parameters` is a list of tensors
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        if not isinstance(t if t._base is None else t._base, nn.Parameter):
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes.values())


# %% only what is listed: What does not count is what `parameters` lists
# breaks: Nothing else is left out
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters}
    sizes = {}

    def pack(t):
        root = t if t._base is None else t._base
        if not isinstance(root, nn.Parameter) and t.untyped_storage().data_ptr() not in owned:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(sizes.values())


# %% only what is listed: What does not count is what `parameters` lists
# breaks: `parameters` is a list of tensors
def saved_nbytes(fn, parameters):
    owned = {p.untyped_storage().data_ptr() for p in parameters if isinstance(p, nn.Parameter)}
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    return sum(size for at, size in sizes.items() if at not in owned)


# %% fn was called a second time
# breaks: Call it once
def saved_nbytes(fn, parameters):
    fn()  # to warm up
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    for p in parameters:
        sizes.pop(p.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% Leave everything behind as you found it
# breaks: no hook is active
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    saved_tensors_hooks(pack, lambda t: t).__enter__()
    out = fn()
    for p in parameters:
        sizes.pop(p.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% has changed its argument `parameters`
# breaks: does not change its arguments
def saved_nbytes(fn, parameters):
    sizes = {}

    def pack(t):
        sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        out = fn()
    while parameters:
        sizes.pop(parameters.pop().untyped_storage().data_ptr(), None)
    return sum(sizes.values())


# %% only what is listed: What does not count is what `parameters` lists
# breaks: `parameters` is a list of tensors
def saved_nbytes(fn, parameters):
    rows = ck.saved_tensors(fn)
    return sum(row.nbytes for row in rows if row.kind != "parameter")
