# %% all that was ever taken
# breaks: is the largest number of bytes in use
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
# breaks: is the number of the first event
def peak_of(events):
    live = peak = moment = 0
    for i, (_, nbytes) in enumerate(events):
        live += nbytes
        if live >= peak:
            peak, moment = live, i
    return {"peak": peak, "left": live, "moment": moment}


# %% events are counted from 0
# breaks: Events are counted from 0
def peak_of(events):
    live = peak = moment = 0
    for i, (_, nbytes) in enumerate(events, 1):
        live += nbytes
        if live > peak:
            peak, moment = live, i
    return {"peak": peak, "left": live, "moment": moment}


# %% What is left is the last of the running sums
# breaks: after the last event
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


# %% peak, moment: 
# breaks: after any of the events
def peak_of(events):
    live = list(accumulate(nbytes for _, nbytes in events))
    later = live[1:] or live
    return {"peak": max(later), "left": live[-1], "moment": live.index(max(later))}


# %% as you found it
# breaks: torch's settings are the same as before
def peak_of(events):
    torch.set_default_dtype(torch.float64)
    live = torch.tensor([float(n) for _, n in events]).cumsum(0)
    return {"peak": live.max(), "left": live[-1], "moment": live.tolist().index(live.max().item())}


# %% has changed its argument `events`
# breaks: does not change its arguments
def peak_of(events):
    live, sums = 0, []
    while events:
        live += events.pop(0)[1]
        sums.append(live)
    return {"peak": max(sums), "left": live, "moment": sums.index(max(sums))}


# %% moment: 
# breaks: is the number of the first event
def peak_of(events):
    live = list(accumulate(nbytes for _, nbytes in events))
    at = live.index(max(live))
    return {"peak": max(live), "left": live[-1], "moment": events[at][0]}
