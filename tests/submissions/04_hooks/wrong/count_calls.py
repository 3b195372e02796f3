# %% Count where calls begin
# breaks: A call that early stop cuts off
def count_calls(model, step):
    counts, handles = {}, []
    for name, module in model.named_modules():
        counts[name] = [0, 0]

        def ended(m, args, out, pair=counts[name]):
            pair[int(torch._C._current_graph_task_id() != -1)] += 1

        handles.append(module.register_forward_hook(ended))
    step()
    for handle in handles:
        handle.remove()
    return counts


# %% A second call is not a recomputation
# breaks: A second call is not always a recomputation
def count_calls(model, step):
    counts = {name: [0, 0] for name, _ in model.named_modules()}

    def began(pair):
        pair[1 if pair[0] else 0] += 1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, pair=counts[name]: began(pair))
    step()
    return counts


# %% All calls were taken for forward ones
# breaks: counts the calls that begin during a backward pass
def count_calls(model, step):
    count = Counter()
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: count.update([name]))
    step()
    return {name: (count[name], 0) for name, _ in model.named_modules()}


# %% Grad mode does not tell the phase
# breaks: some of them under `no_grad`
def count_calls(model, step):
    counts = {name: [0, 0] for name, _ in model.named_modules()}

    def note(pair):
        pair[int(torch.is_grad_enabled())] += 1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, pair=counts[name]: note(pair))
    step()
    return counts


# %% missing in the dict
# breaks: an entry for every module
def count_calls(model, step):
    count = Counter()

    def note(name):
        count[name, torch._C._current_graph_task_id() != -1] += 1

    leaves = {name: m for name, m in model.named_modules() if not list(m.children())}
    for name, module in leaves.items():
        module.register_forward_pre_hook(lambda m, args, name=name: note(name))
    step()
    return {name: (count[name, False], count[name, True]) for name in leaves}


# %% step ran more than once
# breaks: `step` runs once
def count_calls(model, step):
    step()
    counts = {name: [0, 0] for name, _ in model.named_modules()}

    def note(name):
        counts[name][torch._C._current_graph_task_id() != -1] += 1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: note(name))
    step()
    return counts


# %% reentrant checkpoints, non-reentrant checkpoints, a layer called twice: The two numbers are swapped
def count_calls(model, step):
    counts = {name: [0, 0] for name, _ in model.named_modules()}

    def note(name):
        counts[name][torch._C._current_graph_task_id() == -1] += 1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: note(name))
    step()
    return counts


# %% The first number is all calls
def count_calls(model, step):
    every, again = Counter(), Counter()

    def began(name):
        every[name] += 1
        again[name] += torch._C._current_graph_task_id() != -1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: began(name))
    step()
    return {name: (every[name], again[name]) for name, _ in model.named_modules()}


# %% All calls went to the last module
def count_calls(model, step):
    counts = {name: [0, 0] for name, _ in model.named_modules()}

    def note(name):
        counts[name][torch._C._current_graph_task_id() != -1] += 1

    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda m, args: note(name))
    step()
    return counts


# %% '1.spare' missing in the dict
# breaks: A module that is never called
def count_calls(model, step):
    counts = {}
    def hook(name):
        def f(m, args):
            a, b = counts.get(name, (0, 0))
            if torch._C._current_graph_task_id() == -1:
                counts[name] = (a + 1, b)
            else:
                counts[name] = (a, b + 1)
        return f
    hs = [m.register_forward_pre_hook(hook(n)) for n, m in model.named_modules()]
    step()
    for h in hs: h.remove()
    return counts


# %% Grad mode does not tell the phase
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []

    def note(pair):
        pair[0 if torch.is_grad_enabled() else 1] += 1

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda m, args, pair=counts[name]: note(pair)))
    try:
        step()
    finally:
        for handle in handles:
            handle.remove()
    return counts


# %% a step that fails: Hooks stay on the model when step fails
# breaks: the hooks that it had before, no more and no fewer
# breaks: even then nothing is left behind
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
    for name, module in model.named_modules():

        def began(module, args, name=name):
            counts[name][torch._C._current_graph_task_id() != -1] += 1

        handles.append(module.register_forward_pre_hook(began))
    step()
    for handle in handles:
        handle.remove()
    return {name: tuple(pair) for name, pair in counts.items()}


# %% The error of step was swallowed
# breaks: An error that your code did not cause is passed on
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
    for name, module in model.named_modules():

        def began(module, args, name=name):
            counts[name][torch._C._current_graph_task_id() != -1] += 1

        handles.append(module.register_forward_pre_hook(began))
    try:
        step()
    except Exception as error:
        print("step failed:", error)
    finally:
        for handle in handles:
            handle.remove()
    return {name: tuple(pair) for name, pair in counts.items()}


# %% missing in the dict
# breaks: A module's name is the one that `model.named_modules()` gives it
def count_calls(model, step):
    with ck.watch(model) as w:
        step()
    return {row.module or type(model).__name__: (row.forward, row.recompute) for row in w.rows}


# %% Backward hooks were counted
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
    for name, module in model.named_modules():
        def began(m, a, name=name):
            counts[name][0] += 1
        def back(m, gi, go, name=name):
            counts[name][1] += 1
        handles += [module.register_forward_pre_hook(began), module.register_full_backward_hook(back)]
    try:
        step()
    finally:
        for h in handles:
            h.remove()
    return counts


# %% calls: '' missing in the dict
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules() if name}, []
    for name, module in model.named_modules():
        if not name:
            continue
        def began(m, a, name=name):
            counts[name][torch._C._current_graph_task_id() != -1] += 1
        handles.append(module.register_forward_pre_hook(began))
    try:
        step()
    finally:
        for h in handles:
            h.remove()
    return counts


# %% All calls were taken for forward ones
def count_calls(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
    for name, module in model.named_modules():
        def began(m, a, name=name):
            counts[name][0 if m.training else 1] += 1
        handles.append(module.register_forward_pre_hook(began))
    try:
        step()
    finally:
        for h in handles:
            h.remove()
    return counts
