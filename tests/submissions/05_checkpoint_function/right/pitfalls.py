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
