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
