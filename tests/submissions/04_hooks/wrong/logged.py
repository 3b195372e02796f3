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
