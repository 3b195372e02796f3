# %% as large as one of them alone
# breaks: gets the sum of the gradients
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = dx
    return grads


# %% Something was added in place
# breaks: may return the same tensor
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
# breaks: is not called
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
# breaks: need not be the last one
def backward(tape, output, dy):
    grads = {tape[-1][0]: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, 0) + dx
    return grads


# %% used several times, an op that the output does not use, additions: A value
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, dx)
    return grads


# %% as large as one of them alone
def backward(tape, output, dy):
    return backward_wrongly(tape, output, dy)


# %% `pop` takes them out
# breaks: including intermediate values
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        g = grads.pop(out, None)
        if g is not None:
            for name, dx in zip(inputs, vjp(g)):
                grads[name] = grads[name] + dx if name in grads else dx
    return grads


# %% an op that the output does not use: The loop stopped
# breaks: the ops before it on the tape are still processed
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out not in grads:
            break
        for name, dx in zip(inputs, vjp(grads[out])):
            grads[name] = grads[name] + dx if name in grads else dx
    return grads


# %% a value used several times, additions: Something was added in place. A copy of dy
# breaks: may return the same tensor
def backward(tape, output, dy):
    grads = {output: dy.clone()}
    for out, inputs, vjp in reversed(tape):
        if out not in grads:
            continue
        for name, dx in zip(inputs, vjp(grads[out])):
            if name in grads:
                grads[name] += dx
            else:
                grads[name] = dx
    return grads


# %% an op that the output does not use, additions: A value that is used several times
def backward(tape, output, dy):
    made_by = {out: (inputs, vjp) for out, inputs, vjp in tape}
    grads = {}

    def send(name, g):
        grads[name] = g
        if name in made_by:
            inputs, vjp = made_by[name]
            for other, dx in zip(inputs, vjp(g)):
                send(other, dx)

    send(output, dy)
    return grads


# %% backward returned a list, expected a dict
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, 0) + dx
    return list(grads.values())


# %% is a `return` missing?
def backward(tape, output, dy):
    grads = {output: dy}


# %% Skip it
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(grads.get(out))):
            grads[name] = grads.get(name, 0) + dx
    return grads


# %% each has that of its own value
def backward(tape, output, dy):
    grads = {name: torch.zeros_like(dy) for out, inputs, _ in tape for name in (out, *inputs)}
    grads[output] = dy
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(grads[out])):
            grads[name] = grads[name] + dx
    return grads


# %% an op that the output does not use: An op on the tape has no gradient
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        for name, dx in zip(inputs, vjp(grads.get(out, 0))):
            grads[name] = grads.get(name, 0) + dx
    return grads


# %% the op that made the output was not played
def backward(tape, output, dy):
    end = [out for out, _, _ in tape].index(output)
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape[:end]):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads.get(name, 0) + dx
    return grads


# %% play every op whose output has one
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out == output:
            for name, dx in zip(inputs, vjp(dy)):
                grads[name] = grads.get(name, 0) + dx
    return grads


# %% Ones were sent back instead of dy
# breaks: `dy` is the gradient of the loss
def backward(tape, output, dy):
    grads = {output: torch.ones_like(dy)}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads[name] + dx if name in grads else dx
    return grads


# %% has changed its argument `tape`
# breaks: does not change any list
def backward(tape, output, dy):
    grads = {output: dy}
    while tape:
        out, inputs, vjp = tape.pop()
        if out in grads:
            for name, dx in zip(inputs, vjp(grads[out])):
                grads[name] = grads[name] + dx if name in grads else dx
    return grads


# %% expected 
# breaks: An op may have any number of inputs
def backward(tape, output, dy):
    grads = {output: dy}
    for out, (one, two), vjp in reversed(tape):
        if out in grads:
            for name, dx in zip((one, two), vjp(grads[out])):
                grads[name] = grads[name] + dx if name in grads else dx
    return grads


# %% additions: 
# breaks: is not changed
def backward(tape, output, dy):
    grads = {output: dy}
    for out, inputs, vjp in reversed(tape):
        if out in grads:
            for name, dx in zip(inputs, [g.clone() for g in vjp(grads[out])]):
                grads[name] = grads[name] + dx if name in grads else dx
    dy.zero_()
    return {name: g for name, g in grads.items()}
