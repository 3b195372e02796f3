# %% two other points, a loop over the line
def largest_batch(measure, gpu_gib):
    four, eight = measure(4), measure(8)
    per_sample, rest = divmod(eight - four, 4)
    assert rest == 0
    room = gpu_gib * 1024**3 - (four - 4 * per_sample)
    return int(room // per_sample) if room >= per_sample else 0
