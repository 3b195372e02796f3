# %% the library's checkpoint, lambdas
found = dict(zip("abcd", (1, 2, 4, 3)))
fixed_a = lambda model, x: ck.checkpoint(model, x, use_reentrant=False)
fixed_b = lambda model, x: ck.checkpoint(model, x, use_reentrant=True)


def fixed_c(model, x):
    x = model.norm(ck.checkpoint(model.first, x, use_reentrant=True))
    return ck.checkpoint(model.last, x, use_reentrant=True)


def fixed_d(model, x):
    now = model.steps = model.steps + 1
    return ck.checkpoint(lambda x: model.scaled(x, now), x, use_reentrant=False)


# %% other numbers, reentrant with a copy of x, the head by itself
found = {"a": 1.0, "b": "2", "c": 4, "d": 3}


def fixed_a(model, x):
    return checkpoint(model, x.detach().requires_grad_(), use_reentrant=True)


def fixed_b(model, x):
    for layer in model:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


# %% partial functions, and the norm called through its module
from functools import partial

found = {"d": 3, "c": 4, "b": 2, "a": 1}
fixed_a = partial(checkpoint, use_reentrant=False)
fixed_b = partial(checkpoint, use_reentrant=False, preserve_rng_state=True)


def fixed_c(model, x):
    for part in model.children():
        x = part(x) if part is model.norm else checkpoint(part, x, use_reentrant=False)
    return x


def fixed_d(model, x):
    model.steps = steps = model.steps + 1
    return checkpoint(model.scaled, x=x, steps=steps, use_reentrant=False)
