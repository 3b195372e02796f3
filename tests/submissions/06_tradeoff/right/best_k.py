# %% a loop that remembers the best so far
def best_k(n, checkpoint, stage):
    best = None
    for k in range(1, n + 1):
        longest = (n + k - 1) // k
        peak = checkpoint * k + stage * longest
        if best is None or peak < best[1]:
            best = [k, peak]
    return best


# %% only the shortest k for each length of the longest chunk
def best_k(n, checkpoint, stage):
    candidates = [(-(-n // m) * checkpoint + m * stage, -(-n // m)) for m in range(1, n + 1)]
    peak, k = min(candidates)
    return k, peak


# %% NumPy, all k at once
import numpy as np


def best_k(n, checkpoint, stage):
    k = np.arange(1, n + 1)
    peaks = k * checkpoint + np.ceil(n / k) * stage
    at = peaks.argmin()
    return np.array([k[at], peaks[at]])
