# %% not reached. try, and finally
@contextmanager
def logged(model):
    log = []
    handles = [
        module.register_forward_pre_hook(lambda m, args, name=name: log.append(name))
        for name, module in model.named_modules()
    ]
    yield log
    for handle in handles:
        handle.remove()


# %% Every entry is the last module's name
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args: log.append(name)))
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()


# %% And hooks stay on the model when the block raises
def logged(model):
    return broken_log(model)


# %% Hooks that others had put on the model are gone
# breaks: including hooks that other code registered
@contextmanager
def logged(model):
    log = []
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: log.append(name))
    try:
        yield log
    finally:
        for module in model.modules():
            module._forward_pre_hooks.clear()


# %% The block's error was swallowed
# breaks: The error is passed on
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    except RuntimeError as error:
        print(error)
    for handle in handles:
        handle.remove()


# %% in which forwards end
# breaks: in the order in which they begin
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_hook(lambda m, args, out, name=name: log.append(name)))
    try:
        yield log
    finally:
        [handle.remove() for handle in handles]


# %% a block that ends, a block that fails: The log is empty
@contextmanager
def logged(model):
    yield []


# %% The model itself is missing in the log
# breaks: A forward of the model itself adds `""`
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_children():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()


# %% one handle was removed
@contextmanager
def logged(model):
    log = []
    for name, module in model.named_modules():
        handle = module.register_forward_pre_hook(lambda m, args, name=name: log.append(name))
    try:
        yield log
    finally:
        handle.remove()


# %% 'nothing' found
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# %% something else than a RuntimeError
# breaks: with any error
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    except RuntimeError:
        for h in handles:
            h.remove()
        raise
    for h in handles:
        h.remove()


# %% a block that ends: Hooks stay on the model after the block
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    except Exception:
        for h in handles:
            h.remove()
        raise


# %% The block's error was swallowed
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    except RuntimeError as error:
        print(error)
    finally:
        for handle in handles:
            handle.remove()


# %% A module is in the log once, however many times it ran
# breaks: one for each forward that begins inside the block
@contextmanager
def logged(model):
    log, handles = [], []

    def note(name):
        if name not in log:
            log.append(name)

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: note(name)))
    try:
        yield log
    finally:
        for handle in handles:
            handle.remove()


# %% log: 0 entries, expected
# breaks: A forward that begins and then fails is in the list
@contextmanager
def logged(model):
    log, began, handles = [], [], []

    def ended(m, args, out):
        if m is model:
            log.extend(began)
            began.clear()

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: began.append(name)))
    handles.append(model.register_forward_hook(ended))
    try:
        yield log
        log += began
    finally:
        for handle in handles:
            handle.remove()


# %% Modules that are not the model's are in the log
# breaks: Modules that do not belong to `model`
@contextmanager
def logged(model):
    from torch.nn.modules.module import register_module_forward_pre_hook

    log, names = [], {module: name for name, module in model.named_modules()}
    handle = register_module_forward_pre_hook(lambda m, args: log.append(names.get(m, type(m).__name__)))
    try:
        yield log
    finally:
        handle.remove()


# %% a KeyboardInterrupt is not an Exception
# breaks: stopping a cell raises
# breaks: or because you stop the cell
@contextmanager
def logged(model):
    log, handles = [], []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, name=name: log.append(name)))
    try:
        yield log
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()


# %% had changed
# breaks: A function leaves nothing behind
@contextmanager
def logged(model):
    from torch.nn.modules.module import register_module_forward_pre_hook

    log, names = [], {module: name for name, module in model.named_modules()}
    active = [True]

    def note(m, args):
        if active[0] and m in names:
            log.append(names[m])

    register_module_forward_pre_hook(note)
    try:
        yield log
    finally:
        active[0] = False


# %% Those are the classes of the modules
@contextmanager
def logged(model):
    log = []
    handles = [m.register_forward_pre_hook(lambda m, a: log.append(type(m).__name__)) for m in model.modules()]
    try:
        yield log
    finally:
        for h in handles:
            h.remove()
