# %% Later checkpoints are gone
# breaks: everything that was kept for it is freed
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    largest = max(sum(xbar[a:b]) for a, b in zip(starts, ends, strict=True))
    return sum(x[a] for a in starts) + largest


# %% The chain's input x[0] is missing
# breaks: is always in memory
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    peaks, kept = [], 0
    for a, b in zip(starts, ends, strict=True):
        if a:
            kept += x[a]
        peaks.append(kept + sum(xbar[a:b]))
    return max(peaks)


# %% The segment's own input is missing
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    peaks, kept = [], 0
    for a, b in zip(starts, ends, strict=True):
        peaks.append(kept + sum(xbar[a:b]))
        kept += x[a]
    return max(peaks)


# %% Only outputs were added up
def predict_peak(x, xbar, starts):
    return max(
        sum(x[s] for s in starts if s <= a) + sum(x[a + 1 : b + 1])
        for a, b in zip(starts, [*starts[1:], len(xbar)], strict=True)
    )


# %% Checkpoints are missing
def predict_peak(x, xbar, starts):
    return max(sum(xbar[a:b]) for a, b in zip(starts, [*starts[1:], len(xbar)], strict=True))


# %% That is the peak of a run that keeps everything
def predict_peak(x, xbar, starts):
    return x[0] + sum(xbar)


# %% when the last segment is reversed
def predict_peak(x, xbar, starts):
    return sum(x[s] for s in starts) + sum(xbar[starts[-1] :])


# %% when the first segment is reversed
def predict_peak(x, xbar, starts):
    end = starts[1] if len(starts) > 1 else len(xbar)
    return x[0] + sum(xbar[:end])


# %% it is in xbar already
def predict_peak(x, xbar, starts):
    peaks, kept = [], 0
    for a, e in zip(starts, [*starts[1:], len(xbar)], strict=True):
        kept += x[a]
        peaks.append(kept + sum(xbar[a:e]) + x[e])
    return max(peaks)


# %% Outputs were added to xbar
# breaks: including its output but not its input
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[: j + 1]) + sum(xbar[s:e]) + sum(x[s + 1 : e + 1]) for j, (s, e) in parts)


# %% Here its output, x[start + 1], was counted
# breaks: is the size of the input of stage i
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i + 1] for i in starts[: j + 1]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% the first entries of x were added up
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[: j + 1]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% later ones are gone
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[j:]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% one stage of the next segment was added
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[: j + 1]) + sum(xbar[s : e + 1]) for j, (s, e) in parts)


# %% The last segment is missing
# breaks: except the last, which keeps everything
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max((sum(x[i] for i in starts[: j + 1]) + sum(xbar[s:e]) for j, (s, e) in parts[:-1]), default=0)


# %% not all of them together
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return sum(sum(x[i] for i in starts[: j + 1]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% not the largest of them
# breaks: all of its stages keep everything
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[: j + 1]) + max(xbar[s:e]) for j, (s, e) in parts)


# %% the peak is the largest
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return min(sum(x[i] for i in starts[: j + 1]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% x[0] was added twice
def predict_peak(x, xbar, starts):
    peaks, kept = [], x[0]
    for a, b in zip(starts, [*starts[1:], len(xbar)], strict=True):
        kept += x[a]
        peaks.append(kept + sum(xbar[a:b]))
    return max(peaks)


# %% All x of a segment were added
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[:j]) + sum(x[s:e]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% All x of a segment were added
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    parts = list(enumerate(zip(starts, ends, strict=True)))
    return max(sum(x[i] for i in starts[: j + 1]) + sum(x[s:e]) + sum(xbar[s:e]) for j, (s, e) in parts)


# %% The segments were taken to be equally long
# breaks: The segments need not have the same length
def predict_peak(x, xbar, starts):
    n, k = len(xbar), len(starts)
    length = n // k
    peaks, kept = [], 0
    for j in range(k):
        kept += x[j * length]
        end = n if j == k - 1 else (j + 1) * length
        peaks.append(kept + sum(xbar[j * length : end]))
    return max(peaks)


# %% has changed its argument `starts`
# breaks: does not change its arguments
def predict_peak(x, xbar, starts):
    starts.append(len(xbar))
    peaks, kept = [], 0
    for start, end in zip(starts, starts[1:]):
        kept += x[start]
        peaks.append(kept + sum(xbar[start:end]))
    return max(peaks)


# %% one segment: 1 of 2 values differ
# breaks: may have a single stage
def predict_peak(x, xbar, starts):
    if len(xbar) == 1:
        return x[0] + x[1]
    peaks, kept = [], 0
    for start, end in zip(starts, [*starts[1:], len(xbar)]):
        kept += x[start]
        peaks.append(kept + sum(xbar[start:end]))
    return max(peaks)


# %% is not right
def predict_peak(x, xbar, starts):
    ends = [*starts[1:], len(xbar)]
    held = sum(x[start] for start in starts)
    peak = held
    for start, end in reversed(list(zip(starts, ends))):
        held -= x[start]
        peak = max(peak, held + sum(xbar[start:end]) - x[end] + x[start])
    return peak
