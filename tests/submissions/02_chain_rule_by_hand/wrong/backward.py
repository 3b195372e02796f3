# %% the last overwrote others
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = dx
    return grads


# %% Something was added in place
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out not in grads:
            continue
        for name, dx in zip(inputs, vjp(grads[out])):
            if name in grads:
                grads[name].add_(dx)
            else:
                grads[name] = dx
    return grads


# %% Skip it
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(grads[out])):
            grads[name] = grads.get(name, 0) + dx
    return grads


# %% read it in reverse
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in tape:
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, 0) + dx
    return grads


# %% which may stand earlier
def backward(tape, output, dy):
    grads = {tape[-1][0]: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, 0) + dx
    return grads


# %% Here only the first one was kept
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, dx)
    return grads


# %% the last overwrote others
def backward(tape, output, dy):
    return backward_wrongly(tape, output, dy)
