# %% all that was ever taken
def peak_of(events):
    taken, live, moment = 0, 0, 0
    for i, (_, nbytes) in enumerate(events):
        live += nbytes
        if nbytes > 0:
            taken += nbytes
    running = list(accumulate(n for _, n in events))
    moment = running.index(max(running))
    return {"peak": taken, "left": live, "moment": moment}


# %% largest single tensor
def peak_of(events):
    running = list(accumulate(n for _, n in events))
    return {"peak": max(n for _, n in events), "left": running[-1], "moment": running.index(max(running))}


# %% the first one was asked
def peak_of(events):
    live = peak = moment = 0
    for i, (_, nbytes) in enumerate(events):
        live += nbytes
        if live >= peak:
            peak, moment = live, i
    return {"peak": peak, "left": live, "moment": moment}


# %% events are counted from 0
def peak_of(events):
    live = peak = moment = 0
    for i, (_, nbytes) in enumerate(events, 1):
        live += nbytes
        if live > peak:
            peak, moment = live, i
    return {"peak": peak, "left": live, "moment": moment}


# %% What is left is the last of the running sums
def peak_of(events):
    live = list(accumulate(n for _, n in events))
    return {"peak": max(live), "left": max(live), "moment": live.index(max(live))}


# %% no 'moment'
def peak_of(events):
    live = list(accumulate(n for _, n in events))
    return {"peak": max(live), "left": live[-1]}


# %% Is a `return` missing?
def peak_of(events):
    live = list(accumulate(n for _, n in events))
    {"peak": max(live), "left": live[-1], "moment": live.index(max(live))}


# %% returned a tuple, expected a dict with 'peak', 'left', 'moment'
def peak_of(events):
    live = list(accumulate(n for _, n in events))
    return max(live), live[-1], live.index(max(live))
