# %% The layer that runs is gathered: its weights are whole
# breaks: The gathered weights of one layer
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    return 16 * config.parameters // (replicas * tensor) + kept + again


# %% What one layer recomputes is alive
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    kept = formulas.activation_nbytes(config, batch, recompute, tensor_parallel=tensor, sequence_parallel=sequence)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + layer


# %% divided by the replicas only
# breaks: sharded over all
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    return 16 * config.parameters // replicas + kept + again + 2 * (12 * config.width**2 + 13 * config.width) // tensor


# %% Activations are not divided by the replicas
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split) // replicas
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% fills the memory to the last byte
# breaks: need at most `memory` bytes
def order(nbytes, memory, plans):
    def key(name):
        plan = plans[name]
        return "nsf".index(plan["recompute"][0]), plan["tensor"], nbytes[name]

    return sorted((name for name in plans if key(name)[2] < memory), key=key)


# %% By bytes alone
def order(nbytes, memory, plans):
    return sorted((name for name in plans if nbytes[name] <= memory), key=nbytes.get)


# %% Plans that do not fit are in the list
def order(nbytes, memory, plans):
    def key(name):
        plan = plans[name]
        return "nsf".index(plan["recompute"][0]), plan["tensor"], nbytes[name]

    return sorted(plans, key=key)


# %% only among plans with the same recomputation
def order(nbytes, memory, plans):
    def key(name):
        plan = plans[name]
        return plan["tensor"], "nsf".index(plan["recompute"][0]), nbytes[name]

    return sorted((name for name in plans if key(name)[2] <= memory), key=key)


# %% what one layer recomputes is alive, not what all of them do
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.activation_nbytes(config, batch, "none", **split) - kept
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% Sorted as text
# breaks: Plans with "none" come before
def order(nbytes, memory, plans):
    names = [name for name in plans if nbytes[name] <= memory]
    return sorted(names, key=lambda name: (plans[name]["recompute"], plans[name]["tensor"], nbytes[name]))


# %% less what it keeps anyway
# breaks: and what it keeps
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% The activations are those of one layer
# breaks: The activations of all layers
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.layer_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% here it is counted as with "none"
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, "none", **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% not the whole model
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * config.parameters // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% are not passed on to the formulas
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% The smaller tensor comes first, not the larger
# breaks: the one with the smaller `tensor`
def order(nbytes, memory, plans):
    def key(name):
        plan = plans[name]
        return "nsf".index(plan["recompute"][0]), -plan["tensor"], nbytes[name]

    return sorted((name for name in plans if nbytes[name] <= memory), key=key)


# %% PLANS was asked
# breaks: need not be `PLANS`
def order(nbytes, memory, plans):
    def key(name):
        plan = PLANS[name]
        return "nsf".index(plan["recompute"][0]), plan["tensor"], nbytes[name]

    return sorted((name for name in PLANS if nbytes[name] <= memory), key=key)


# %% order: error: not answered yet
def order(nbytes, memory, plans):
    raise NotImplementedError()


# %% bytes, nothing recomputed, bytes, recomputed: error: ValueError: bytes are whole numbers
# breaks: Each term is rounded down
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none", **split)
    again -= formulas.layer_nbytes(config, batch, recompute, **split)
    layer = 2 * (12 * config.width**2 + 13 * config.width) / tensor
    return 16 * config.parameters / (replicas * tensor) + kept + again + layer


# %% bytes, recomputed: tensor and sequence are not passed on in the last term
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    split = {"tensor_parallel": tensor, "sequence_parallel": sequence}
    kept = formulas.activation_nbytes(config, batch, recompute, **split)
    again = formulas.layer_nbytes(config, batch, "none")
    again -= formulas.layer_nbytes(config, batch, recompute)
    layer = 2 * (12 * config.width**2 + 13 * config.width) // tensor
    return 16 * config.parameters // (replicas * tensor) + kept + again + layer


# %% the one with fewer bytes comes first
# breaks: the one with fewer bytes
def order(nbytes, memory, plans):
    def work(name):
        return ("none", "selective", "full").index(plans[name]["recompute"]), plans[name]["tensor"]

    return sorted((name for name in plans if nbytes[name] <= memory), key=work)
