# %% one pass, without accumulate
def peak_of(events):
    in_use, peak, moment = 0, float("-inf"), None
    for number, (_, nbytes) in enumerate(events):
        in_use += nbytes
        if in_use > peak:
            peak, moment = in_use, number
    return dict(peak=peak, left=in_use, moment=moment)


# %% sums of slices, as tensors
def peak_of(events):
    live = torch.tensor([sum(n for _, n in events[: i + 1]) for i in range(len(events))])
    return {"peak": live.max().item(), "left": int(live[-1]), "moment": live.tolist().index(live.max().item())}


# %% NumPy, and floats without a fraction
def peak_of(events):
    import numpy as np

    live = np.cumsum([nbytes for _, nbytes in events])
    return {"peak": float(live.max()), "left": live[-1], "moment": live.argmax()}
