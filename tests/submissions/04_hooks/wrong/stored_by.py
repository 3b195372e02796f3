# %% Neither says what was saved
def stored_by(model, x):
    found = {}
    for name, module in model.named_modules():
        module.register_forward_hook(
            lambda m, args, out, name=name: found.__setitem__(name, out.nbytes * out.requires_grad)
        )
    model(x)
    return found


# %% was counted twice
def stored_by(model, x):
    running, nbytes = [], Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        if t.untyped_storage().data_ptr() not in own:
            nbytes[running[-1]] += t.nbytes
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        model(x)
    return nbytes


# %% Parameters were counted
# breaks: and neither do views of them
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()

    def pack(t):
        storage = t.untyped_storage()
        if not isinstance(t, nn.Parameter) and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        out = model(x)
    return nbytes


# %% a submodule that had ended already
def stored_by(model, x):
    last, nbytes = "", Counter()
    seen = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def began(name):
        nonlocal last
        last = name

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            nbytes[last] += storage.nbytes()
        return t

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: began(name))
    with saved_tensors_hooks(pack, lambda t: t):
        out = model(x)
    return nbytes


# %% the module that made the tensor
def stored_by(model, x):
    outputs, saved = [], []
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda m, args, out, name=name: outputs.append((name, out)))
    with saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        model(x)
    kept = {t.untyped_storage().data_ptr() for t in saved}
    nbytes = Counter()
    for name, out in outputs:
        nbytes[name] += out.nbytes if out.untyped_storage().data_ptr() in kept else 0
    return nbytes


# %% Tensors that a checkpoint drops
# breaks: A tensor that a checkpoint drops
def stored_by(model, x):
    seen, nbytes, stack, held = {p.untyped_storage().data_ptr() for p in model.parameters()}, Counter(), [], []

    def began(name):
        def pack(t):
            storage = t.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                held.append(t)
                nbytes[name] += storage.nbytes()
            return t

        stack.append(saved_tensors_hooks(pack, lambda t: t))
        stack[-1].__enter__()

    def ended(m, args, out):
        stack.pop().__exit__()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: began(name))
        module.register_forward_hook(ended)
    model(x)
    return nbytes


# %% No module has any bytes
def stored_by(model, x):
    model(x)
    return {}


# %% expected a dict with
def stored_by(model, x):
    return ck.saved_tensors(lambda: model(x)).nbytes


# %% The model ran more than once
# breaks: `model(x)` runs once
def stored_by(model, x):
    model(x)
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% A backward ran
# breaks: there is no backward pass
def stored_by(model, x):
    with ck.watch(model) as w:
        model(x).sum().backward()
    root = type(model).__name__
    return {("" if row.module == root else row.module): row.saved for row in w.rows}


# %% x was made to require a gradient
# breaks: with `x` as it is
def stored_by(model, x):
    x = x.clone().requires_grad_()
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% x was made to require a gradient
def stored_by(model, x):
    x.requires_grad_()
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% Views of one storage begin at addresses of their own
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        if t.data_ptr() not in own | seen:
            seen.add(t.data_ptr())
            nbytes[running[-1]] += t.nbytes
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% An element was taken for 4 bytes
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += 4 * t.numel()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% A storage that two ops save was counted twice
# breaks: a storage counts once
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own:
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% Bytes went to every module that was running
# breaks: the innermost module that is running
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            for name in running:
                nbytes[name] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% The storage of x was left out
# breaks: The storage of `x` counts
def stored_by(model, x):
    running, seen, nbytes = [], set(), Counter()
    own = {p.untyped_storage().data_ptr() for p in (*model.parameters(), x)}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    return nbytes


# %% went to whoever saved it last
# breaks: for the module that saved it first
def stored_by(model, x):
    running, savers, nbytes = [], {}, Counter()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        savers[t.untyped_storage().data_ptr()] = running[-1], t.untyped_storage()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: running.append(name))
        module.register_forward_hook(ended)
    with saved_tensors_hooks(pack, lambda t: t):
        model(x)
    for address, (name, storage) in savers.items():
        nbytes[name] += 0 if address in own else storage.nbytes()
    return nbytes


# %% add them up
# breaks: has the sum of their bytes
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), {}, []
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    for name, m in model.named_modules():
        handles.append(m.register_forward_pre_hook(lambda m, a, n=name: running.append(n)))
        def leave(m, a, o):
            running.pop()
        handles.append(m.register_forward_hook(leave))
    def pack(t):
        s = t.untyped_storage()
        if s.data_ptr() not in own and s.data_ptr() not in seen:
            seen.add(s.data_ptr())
            nbytes[running[-1]] = s.nbytes()
        return t
    with saved_tensors_hooks(pack, lambda t: t):
        y = model(x)
    for h in handles: h.remove()
    return nbytes


# %% Only modules without submodules have hooks
# breaks: the bytes saved there count for this module
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    for name, m in model.named_modules():
        if list(m.children()):
            continue
        handles.append(m.register_forward_pre_hook(lambda m, a, n=name: running.append(n)))
        def leave(m, a, o):
            running.pop()
        handles.append(m.register_forward_hook(leave))
    def pack(t):
        s = t.untyped_storage()
        if s.data_ptr() not in own and s.data_ptr() not in seen:
            seen.add(s.data_ptr())
            nbytes[running[-1] if running else ""] += s.nbytes()
        return t
    with saved_tensors_hooks(pack, lambda t: t):
        y = model(x)
    for h in handles: h.remove()
    return nbytes


# %% elements instead of bytes
# breaks: Sizes are in bytes
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {t.untyped_storage().data_ptr() for t in (model.parameters())}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes() // t.element_size()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: running.append(name)))
        handles.append(module.register_forward_hook(ended))
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            result = model(x)
    finally:
        for handle in handles:
            handle.remove()
    return nbytes


# %% a forward that fails: Hooks stay on the model when its forward fails
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {t.untyped_storage().data_ptr() for t in (model.parameters())}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: running.append(name)))
        handles.append(module.register_forward_hook(ended))
    with saved_tensors_hooks(pack, lambda t: t):
        result = model(x)
    for handle in handles:
        handle.remove()
    return nbytes


# %% a forward that fails: The model's error was swallowed
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {t.untyped_storage().data_ptr() for t in (model.parameters())}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: running.append(name)))
        handles.append(module.register_forward_hook(ended))
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            result = model(x)
    except RuntimeError as error:
        print(error)
    for handle in handles:
        handle.remove()
    return nbytes


# %% plus and frozen: Parameters were counted
# breaks: whether they train or are frozen
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {t.untyped_storage().data_ptr() for t in (p for p in model.parameters() if p.requires_grad)}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in own | seen:
            seen.add(storage.data_ptr())
            nbytes[running[-1]] += storage.nbytes()
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: running.append(name)))
        handles.append(module.register_forward_hook(ended))
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            result = model(x)
    finally:
        for handle in handles:
            handle.remove()
    return nbytes


# %% Views of one storage begin at addresses of their own
# breaks: a storage counts once
def stored_by(model, x):
    names = {m: n for n, m in model.named_modules()}
    running, seen, out, handles = [], {p.data_ptr() for p in model.parameters()}, Counter(), []
    def pack(t):
        if t.data_ptr() not in seen:
            seen.add(t.data_ptr())
            out[running[-1]] += t.untyped_storage().nbytes()
        return t
    for m in names:
        handles.append(m.register_forward_pre_hook(lambda m, a: running.append(names[m])))
        handles.append(m.register_forward_hook(lambda m, a, o: running.pop() and None))
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            y = model(x)
    finally:
        for h in handles:
            h.remove()
    return dict(out)


# %% Those are the bytes of outputs
def stored_by(model, x):
    found, handles = {}, []
    for name, module in model.named_modules():
        def hook(m, a, out, name=name):
            found[name] = found.get(name, 0) + out.nbytes
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for h in handles:
            h.remove()
    return found


# %% The bytes of a view were counted
# breaks: All bytes of a storage count
def stored_by(model, x):
    running, seen, nbytes, handles = [], set(), Counter(), []
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        address = t.untyped_storage().data_ptr()
        if address not in own | seen:
            seen.add(address)
            nbytes[running[-1]] += t.nbytes
        return t

    def ended(m, args, out):
        running.pop()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: running.append(name)))
        handles.append(module.register_forward_hook(ended))
    try:
        with saved_tensors_hooks(pack, lambda t: t):
            result = model(x)
    finally:
        for handle in handles:
            handle.remove()
    return nbytes
