# %% by hand, from the changes of the timeline
def whole_step(build):
    line = ck.measure(build, "sim:cuda", builds=True).timeline
    total = sum(change.nbytes for change in line.start)
    forward = step = total
    phase = best = None
    before_backward = True
    for i, change in enumerate(line.changes):
        total += change.nbytes
        before_backward = before_backward and change.phase == "forward"
        if before_backward:
            forward = max(forward, total)
        if total > step:
            step, phase, best = total, change.phase, i
    there = 0
    for change in line.start + line.changes[: best + 1]:
        if change.owner.category == "activation":
            there += change.nbytes
    return {"forward": forward, "step": step, "phase": phase, "activations": there}
