# %% a class with enter and exit, an ExitStack of handles
import contextlib
from functools import partial


class logged:
    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.log, self.stack = [], contextlib.ExitStack()
        for name, module in self.model.named_modules():
            hook = partial(self._note, name)
            self.stack.callback(module.register_forward_pre_hook(hook).remove)
        return self.log

    def _note(self, name, module, args):
        self.log.append(name)

    def __exit__(self, *error):
        self.stack.close()


# %% one hook on all modules there are
@contextmanager
def logged(model):
    log = []
    names = {}
    for name, module in model.named_modules():
        names[module] = name
    from torch.nn.modules.module import register_module_forward_pre_hook

    handle = register_module_forward_pre_hook(lambda m, args: log.append(names[m]) if m in names else None)
    try:
        yield log
    finally:
        handle.remove()


# %% forwards replaced for the time of the block
@contextmanager
def logged(model):
    log = []

    def wrap(name, forward):
        def inner(*args, **named):
            log.append(name)
            return forward(*args, **named)

        return inner

    for name, module in model.named_modules():
        module.forward = wrap(name, module.forward)
    try:
        yield log
    finally:
        for module in model.modules():
            del module.forward


# %% the log is a list of a class of its own, and one function serves all modules
@contextmanager
def logged(model):
    class Log(list):
        def __call__(self, module, args):
            self.append(names[module])

    names, log = {module: name for name, module in model.named_modules()}, Log()
    handles = {module.register_forward_pre_hook(log) for module in names}
    try:
        yield log
    finally:
        while handles:
            handles.pop().remove()
