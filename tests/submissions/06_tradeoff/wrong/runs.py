# %% Its stages run once
def predict_runs(n, k, save_chunk):
    m = n // k
    return [2] * n if save_chunk else [m - i % m + 1 for i in range(n)]


# %% runs once less than that
# breaks: and so does the run for its own backward
def predict_runs(n, k, save_chunk):
    m = n // k
    return [2] * (n - m) + [1] * m if save_chunk else [m - i % m + 1 for i in range(n)]


# %% not the first: backward begins at the end
def predict_runs(n, k, save_chunk):
    m = n // k
    return [1] * m + [2] * (n - m) if save_chunk else [m - i % m + (i < n - m) for i in range(n)]


# %% have run once before
# breaks: The first run of a stage counts
def predict_runs(n, k, save_chunk):
    m = n // k
    return [2] * (n - m) + [1] * m if save_chunk else [m - i % m for i in range(n)]


# %% The other way round
def predict_runs(n, k, save_chunk):
    m = n // k
    return [2] * (n - m) + [1] * m if save_chunk else [i % m + 1 + (i < n - m) for i in range(n)]


# %% No layer ran
def count_runs(schedule, layers, x):
    return schedule.forwards()


# %% recomputation happens in backward
# breaks: runs the backward pass of the output's sum
def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda m, a, y, i=i: runs.__setitem__(i, runs[i] + 1))
    ck.execute(schedule, layers, x)
    return runs


# %% without the schedule
# breaks: It executes the schedule
def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    y = x
    for i, layer in enumerate(layers):
        y = layer(y)
        runs[i] += 1
    y.sum().backward()
    return runs


# %% Write i=i
def count_runs(schedule, layers, x):
    runs = [0] * len(layers)

    def note(i):
        runs[i] += 1

    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda m, a, y: note(i))
    ck.execute(schedule, layers, x).sum().backward()
    return runs


# %% number of all runs together
# breaks: It returns a list of n integers
def count_runs(schedule, layers, x):
    runs = []
    for layer in layers:
        layer.register_forward_hook(lambda *_: runs.append(1))
    ck.execute(schedule, layers, x).sum().backward()
    return len(runs)


# %% or made by a backward hook
def predict_runs(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return [2] * (n - m) + [1] * m
    return [m - i % m + (i < n - m) for i in range(n)]


def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    handles = []
    for i, layer in enumerate(layers):

        def hook(module, args, output, i=i):
            runs[i] += 1

        handles.append(layer.register_full_backward_hook(hook))
    ck.execute(schedule, layers, x).sum().backward()
    for handle in handles:
        handle.remove()
    return runs


# %% chunks of k stages
def predict_runs(n, k, save_chunk):
    m = k
    if save_chunk:
        return [2] * (n - m) + [1] * m
    return [m - i % m + (i < n - m) for i in range(n)]


def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    handles = []
    for i, layer in enumerate(layers):

        def hook(module, args, output, i=i):
            runs[i] += 1

        handles.append(layer.register_forward_hook(hook))
    ck.execute(schedule, layers, x).sum().backward()
    for handle in handles:
        handle.remove()
    return runs


# %% an entry is asked for each
def predict_runs(n, k, save_chunk):
    m = n // k
    if save_chunk:
        return [2] * (n - m) + [1] * m
    return [m - i % m + (i < n - m) for i in range(m)]


def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    handles = []
    for i, layer in enumerate(layers):

        def hook(module, args, output, i=i):
            runs[i] += 1

        handles.append(layer.register_forward_hook(hook))
    ck.execute(schedule, layers, x).sum().backward()
    for handle in handles:
        handle.remove()
    return runs


# %% were the counts read before backward
def count_runs(schedule, layers, x):
    runs = [0] * len(layers)
    handles = [
        layer.register_forward_hook(lambda m, a, y, i=i: runs.__setitem__(i, runs[i] + 1))
        for i, layer in enumerate(layers)
    ]
    y = ck.execute(schedule, layers, x)
    for handle in handles:
        handle.remove()
    y.sum().backward()
    return runs


# %% count on paper was returned
# breaks: how many times each layer was really called
def count_runs(schedule, layers, x):
    ck.execute(schedule, layers, x).sum().backward()
    return schedule.forwards()


# %% has changed its argument `layers`
# breaks: it leaves no hook on a layer
def count_runs(schedule, layers, x):
    runs = [0] * len(layers)

    def count(i):
        runs[i] += 1

    for i, layer in enumerate(layers):
        layer.register_forward_hook(lambda module, args, out, i=i: count(i))
    ck.execute(schedule, layers, x).sum().backward()
    return runs
