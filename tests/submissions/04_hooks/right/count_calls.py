# %% with the book's library
def count_calls(model, step):
    with ck.watch(model) as w:
        step()
    root = type(model).__name__
    return {("" if row.module == root else row.module): [row.forward, row.recompute] for row in w.rows}


# %% forward hooks that run also after an exception
from functools import partial


def count_calls(model, step):
    began = Counter()

    def ended(name, module, args, out):
        began[name, torch._C._current_graph_task_id() >= 0] += 1

    handles = [
        module.register_forward_hook(partial(ended, name), always_call=True) for name, module in model.named_modules()
    ]
    step()
    for handle in handles:
        handle.remove()
    return {name: (began[name, False], began[name, True]) for name, _ in model.named_modules()}
