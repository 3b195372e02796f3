# %% That is the peak before backward
# breaks: is the peak of the whole step
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    return {
        "forward": run.forward_peak,
        "step": run.forward_peak,
        "phase": "forward",
        "activations": run.by_category.get("activation", 0),
    }


# %% counts tensors alone
def whole_step(build):
    run = ck.measure(build, builds=True)
    phase = run.timeline.changes[run.timeline.peak_moment].phase
    alive = sum(c.nbytes for c in run.at_peak if c.owner.category == "activation")
    return {"forward": run.forward_peak, "step": run.peak, "phase": phase, "activations": alive}


# %% the step that it returns never ran
# breaks: Measure the step that `build` returns
def whole_step(build):
    run = ck.measure(build, "sim:cuda", fake=True)
    phase = run.timeline.changes[run.timeline.peak_moment].phase
    alive = sum(c.nbytes for c in run.at_peak if c.owner.category == "activation")
    return {"forward": run.forward_peak, "step": run.peak, "phase": phase, "activations": alive}


# %% alive at the peak of the forward pass
# breaks: alive at that moment
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    line = run.timeline
    moment = line.totals.tolist().index(run.forward_peak)
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": line.changes[line.peak_moment].phase,
        "activations": line.by_category(moment).get("activation", 0),
    }


# %% all activations that the step ever makes
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    line = run.timeline
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": line.changes[line.peak_moment].phase,
        "activations": sum(c.nbytes for c in line.changes if c.owner.category == "activation" and c.nbytes > 0),
    }


# %% the phase in which the step ends
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": run.timeline.changes[-1].phase,
        "activations": run.by_category.get("activation", 0),
    }


# %% forward: That is the peak of the whole step
# breaks: is the peak before backward
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    phase = run.timeline.changes[run.timeline.peak_moment].phase
    return {
        "forward": run.peak,
        "step": run.peak,
        "phase": phase,
        "activations": run.by_category.get("activation", 0),
    }


# %% activations: That is what the activations asked for
# breaks: not the sizes that the tensors asked for
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": run.timeline.changes[run.timeline.peak_moment].phase,
        "activations": sum(c.owner.nbytes for c in run.at_peak if c.owner.category == "activation"),
    }


# %% phase, activations: One change too early or too late
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    line, moment = run.timeline, run.timeline.peak_moment - 1
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": line.changes[moment].phase,
        "activations": line.by_category(moment).get("activation", 0),
    }


# %% phase: One change too early or too late
# breaks: is the phase in which the step
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    return {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": run.timeline.changes[run.timeline.peak_moment + 1].phase,
        "activations": run.by_category.get("activation", 0),
    }


# %% step: That is what is reserved
# breaks: not of what is reserved
def whole_step(build):
    run = ck.measure(build, "sim:cuda", builds=True, fake=True)
    return {
        "forward": run.forward_peak,
        "step": run.reserved,
        "phase": run.timeline.changes[run.timeline.peak_moment].phase,
        "activations": run.by_category.get("activation", 0),
    }
