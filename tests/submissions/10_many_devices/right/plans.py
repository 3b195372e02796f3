# %% sorts three times, the last rule first
def plan_nbytes(config, batch, replicas, tensor, sequence, recompute):
    def layer(strategy):
        return formulas.layer_nbytes(config, batch, strategy, tensor, sequence)

    weights = (12 * config.width + 13) * config.width
    total = config.parameters * 16 // replicas // tensor
    return total + config.layers * layer(recompute) + layer("none") - layer(recompute) + weights * 2 // tensor


def order(nbytes, memory, plans):
    names = [name for name in plans if not nbytes[name] > memory]
    names.sort(key=lambda name: nbytes[name])
    names.sort(key=lambda name: plans[name]["tensor"])
    names.sort(key=lambda name: {"none": 0, "selective": 1, "full": 2}[plans[name]["recompute"]])
    return names
