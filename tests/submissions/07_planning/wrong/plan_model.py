# %% Nothing is recomputed
def plan_model(stages, x, budget):
    return ck.store_all(len(stages))


# %% Equal segments do not know
def plan_model(stages, x, budget):
    return ck.sqrt(len(stages))


# %% stages that take equally long
def plan_model(stages, x, budget):
    costs = replace(ck.profile_chain(stages, x), ftime=[1] * len(stages), btime=[1] * len(stages))
    return ck.optimal(costs, budget)


# %% Gradients and temporaries were left out
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    return ck.optimal(ck.Costs(flops, flops, costs.x, costs.xbar, dx=[0] * (costs.n + 1)), budget)


# %% planned for less memory than there is
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    try:
        return ck.optimal(replace(costs, ftime=flops), 1)
    except ck.CkptError as error:
        return ck.optimal(replace(costs, ftime=flops), error.smallest)


# %% the chain's input alone
def plan_model(stages, x, budget):
    return ck.recompute_all(len(stages))


# %% raised
def plan_model(stages, x, budget):
    return ck.plan(stages, x).module


# %% The budget is the chain's, and ck.plan takes one for a whole training step
def plan_model(stages, x, budget):
    return ck.plan(stages, x, budget).schedule


# %% wide and narrow in turn, a funnel: This is planned with times that are not FLOPs
def plan_model(stages, x, budget):
    return ck.optimal(ck.profile_chain(stages, x), budget)


# %% hand that copy on
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


# %% a part of the budget is not used
def plan_model(stages, x, budget):
    costs = ck.profile_chain(stages, x)
    flops = [2 * len(x) * s[0].out_features * (s[0].in_features + s[2].out_features) for s in stages]
    return ck.optimal(replace(costs, ftime=flops), int(0.9 * budget))


# %% These are not the FLOPs of a block
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * h for d, h, _ in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% These are not the FLOPs of a block
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * h * k for _, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% These are not the FLOPs of a block
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * k for d, _, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% These are not the FLOPs of a block
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * d * h * k for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget)


# %% was added to the budget
def plan_model(stages, x, budget):
    sizes = [(s[0].in_features, s[0].out_features, s[-1].out_features) for s in stages]
    times = [2 * len(x) * (d * h + h * k) for d, h, k in sizes]
    return ck.optimal(replace(ck.profile_chain(stages, x), ftime=times), budget + x.nbytes)


# %% Only equal segments were tried
def plan_model(stages, x, budget):
    n, costs = len(stages), ck.profile_chain(stages, x)
    plans = [ck.periodic(n, k) for k in range(1, n + 1)]
    fitting = [plan for plan in plans if plan.cost(costs).peak <= budget]
    return min(fitting or [ck.revolve(n, 1)], key=lambda plan: sum(plan.forwards()))
