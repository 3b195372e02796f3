# %% PyTorch counts the FLOPs, the planner takes them
def plan_model(stages, x, budget):
    from torch.utils.flop_counter import FlopCounterMode

    costs, forward, backward, y = ck.profile_chain(stages, x), [], [], x.detach()
    for stage in stages:
        with FlopCounterMode(display=False) as counter:
            y = stage(y).detach()
        forward.append(counter.get_total_flops())
        backward.append(2 * forward[-1])
    times = replace(costs, ftime=forward, btime=backward)
    return ck.optimal(times, budget)


# %% the weights of a block, times anything
def plan_model(stages, x, budget):
    times = [sum(p.numel() for p in stage.parameters() if p.ndim == 2) for stage in stages]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% a class plans, in GFLOPs, and looks at the weights
class plan_model:
    def __new__(cls, stages, x, budget):
        rows = x.shape[0]
        flops = [sum(2 * rows * layer.weight.numel() for layer in (stage[0], stage[2])) / 1e9 for stage in stages]
        prices = ck.profile_chain(stages, x, repeats=1)
        return ck.optimal(replace(prices, ftime=flops, btime=[2 * time for time in flops]), int(budget))
