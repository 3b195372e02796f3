# %% √n, for units of one size
def best_k(n, checkpoint, stage):
    k = round(n**0.5)
    return k, k * checkpoint + -(-n // k) * stage


# %% And k cannot be larger than n
def best_k(n, checkpoint, stage):
    k = round((n * stage / checkpoint) ** 0.5)
    return k, k * checkpoint + -(-n // k) * stage


# %% another k may be better
def best_k(n, checkpoint, stage):
    k = min(n, round((n * stage / checkpoint) ** 0.5))
    return k, k * checkpoint + -(-n // k) * stage


# %% Upside down
def best_k(n, checkpoint, stage):
    k = min(n, max(1, round((n * checkpoint / stage) ** 0.5)))
    return k, k * checkpoint + -(-n // k) * stage


# %% the smallest was asked
# breaks: return the smallest of them
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + -(-n // k) * stage for k in range(1, n + 1)}
    least = min(peaks.values())
    return max(k for k in peaks if peaks[k] == least), least


# %% rounded down
# breaks: so n/k is rounded **up**
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + n // k * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% Only those k were tried that divide n
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + n // k * stage for k in range(1, n + 1) if n % k == 0}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% never tried
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + -(-n // k) * stage for k in range(1, n)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% peak: n/k was not rounded
# breaks: `peak` is that smallest peak
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + n / k * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% to the nearest number
def best_k(n, checkpoint, stage):
    peak, k = min((k * checkpoint + round(n / k) * stage, k) for k in range(1, n + 1))
    return k, peak


# %% k, peak: k and peak are in the other order
def best_k(n, checkpoint, stage):
    return min((k * checkpoint + -(-n // k) * stage, k) for k in range(1, n + 1))


# %% one stage too many where k divides n
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + (n // k + 1) * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% Two numbers are asked
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + -(-n // k) * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k


# %% One checkpoint is missing
def best_k(n, checkpoint, stage):
    peaks = {k: (k - 1) * checkpoint + -(-n // k) * stage for k in range(1, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% peak: n/k was not rounded
def best_k(n, checkpoint, stage):
    k = min(range(1, n + 1), key=lambda k: k * checkpoint + -(-n // k) * stage)
    return k, k * checkpoint + n / k * stage


# %% peak: n/k was rounded down
def best_k(n, checkpoint, stage):
    k = min(range(1, n + 1), key=lambda k: k * checkpoint + -(-n // k) * stage)
    return k, k * checkpoint + n // k * stage


# %% k = 1 was never tried
# breaks: including 1 and n
def best_k(n, checkpoint, stage):
    peaks = {k: k * checkpoint + -(-n // k) * stage for k in range(2, n + 1)}
    k = min(peaks, key=peaks.get)
    return k, peaks[k]


# %% raised ZeroDivisionError
# breaks: any number from 1 to n
def best_k(n, checkpoint, stage):
    peaks = {}
    for k in range(1, n + 1):
        longest = 1 + (n - 1) // k
        peaks[k] = k * checkpoint + longest * stage
    k = min(peaks, key=peaks.get)
    saving = 1 - k / (n - 1)  # a share that nobody asked for
    return k, peaks[k]


# %% k: Of several k that are equally good, the smallest was asked
def best_k(n, checkpoint, stage):
    return min(((k, k * checkpoint + -(-n // k) * stage) for k in range(n, 0, -1)), key=lambda p: p[1])
