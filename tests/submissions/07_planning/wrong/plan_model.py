# %% Nothing is recomputed
def plan_model(stages, x, budget):
    return ck.store_all(len(stages))


# %% Equal segments do not know
def plan_model(stages, x, budget):
    return ck.sqrt(len(stages))


# %% stages that take equally long
# breaks: needs the fewest forward FLOPs
def plan_model(stages, x, budget):
    costs = replace(ck.profile_chain(stages, x), ftime=[1] * len(stages), btime=[1] * len(stages))
    return ck.optimal(costs, budget)


# %% Gradients or temporary tensors are missing
# breaks: as `ck.optimal` counts them
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    return ck.optimal(ck.Costs(flops, flops, costs.x, costs.xbar, dx=[0] * (costs.n + 1)), budget)


# %% the work in the smallest budget
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    try:
        return ck.optimal(replace(costs, ftime=flops), 1)
    except ck.CkptError as error:
        return ck.optimal(replace(costs, ftime=flops), error.smallest)


# %% keeps only the chain's input
def plan_model(stages, x, budget):
    return ck.recompute_all(len(stages))


# %% raised
def plan_model(stages, x, budget):
    return ck.plan(stages, x).module


# %% The budget is the chain's, and ck.plan takes one for a whole training step
def plan_model(stages, x, budget):
    return ck.plan(stages, x, budget).schedule


# %% wide and narrow in turn, a funnel, the smallest budget: The work is that of a plan with times that are not FLOPs
# breaks: plan with FLOPs instead
def plan_model(stages, x, budget):
    return ck.optimal(ck.profile_chain(stages, x), budget)


# %% pass that copy on
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    replace(costs, ftime=flops)
    return ck.optimal(costs, budget)


# %% a Plan was returned, expected a ck.Schedule: the plan's .schedule
def plan_model(stages, x, budget):
    return ck.plan(stages, x)


# %% Is a `return` missing?
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    ck.optimal(replace(costs, ftime=flops), budget)


# %% ck.optimal counts it itself
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    return ck.optimal(replace(costs, ftime=flops), budget - costs.x[0])


# %% a part of the budget was not used
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    return ck.optimal(replace(costs, ftime=flops), int(0.9 * budget))


# %% as if a block had other FLOPs
# breaks: a linear layer (d to h features)
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * h for d, h, _ in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% as if a block had other FLOPs
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * h * k for _, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% as if a block had other FLOPs
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * k for d, _, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% as if a block had other FLOPs
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * h * k for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% input added to the budget
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * (d * h + h * k) for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget + x.nbytes)


# %% the work of equal segments
def plan_model(stages, x, budget):
    n, costs = len(stages), ck.profile_chain(stages, x)
    plans = [ck.periodic(n, k) for k in range(1, n + 1)]
    fitting = [plan for plan in plans if plan.cost(costs).peak <= budget]
    return min(fitting or [ck.revolve(n, 1)], key=lambda plan: sum(plan.forwards()))


# %% the smallest budget: raised
# breaks: may be the smallest budget for which there is a schedule
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * (d * h + h * k) for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget - 1)


# %% has left gradients in .grad
# breaks: it leaves no gradients behind
def plan_model(stages, x, budget):
    stages(x).sum().backward()  # warms up
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * (d * h + h * k) for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% has changed its argument `stages`
def plan_model(stages, x, budget):
    stages.eval()
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * (d * h + h * k) for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)
