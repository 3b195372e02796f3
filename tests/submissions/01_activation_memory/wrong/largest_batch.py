# %% What does not grow with the batch was forgotten
def largest_batch(measure, gpu_gib):
    return gpu_gib * 2**30 // measure(1)


# %% gpu_gib is in GiB
# breaks: in GiB, an integer
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return max(0, (gpu_gib * 10**9 - measure(1) + slope) // slope)


# %% round down
def largest_batch(measure, gpu_gib):
    import math

    slope = measure(2) - measure(1)
    return max(0, math.ceil((gpu_gib * 2**30 - measure(1) + slope) / slope))


# %% the largest batch is 0
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return (gpu_gib * 2**30 - measure(1) + slope) // slope


# %% out of memory
def largest_batch(measure, gpu_gib):
    batch = 0
    while measure(batch + 1) <= gpu_gib * 2**30:
        batch += 1
    return batch


# %% one sample is counted twice
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return max(0, (gpu_gib * 2**30 - measure(1)) // slope)


# %% at most, not less than
# breaks: A batch that fills it to the last byte
def largest_batch(measure, gpu_gib):
    a, b = measure(1), measure(2)
    return max(0, (gpu_gib * 2**30 - 1 - (2 * a - b)) // (b - a))


# %% ask for 1 to 8 only
# breaks: raises an error unless
def largest_batch(measure, gpu_gib):
    fixed = measure(0)
    return max(0, (gpu_gib * 2**30 - fixed) // (measure(1) - fixed))


# %% a batch that fits, a batch that fits to the byte: 8 is the largest batch that can be measured
# breaks: but the answer may be larger
def largest_batch(measure, gpu_gib):
    batch = 0
    try:
        while measure(batch + 1) <= gpu_gib * 2**30:
            batch += 1
    except MemoryError:
        pass
    return batch


# %% a batch that fits, a batch that fits to the byte: 0 was found, but many samples fit
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return max(0, (gpu_gib - measure(1) + slope) // slope)


# %% gpu_gib was taken for bytes
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return (gpu_gib - measure(1) + slope) // slope


# %% One too few elsewhere as well? Then a sample is counted twice
def largest_batch(measure, gpu_gib):
    return max(0, (gpu_gib * 2**30 - measure(1)) // (measure(2) - measure(1)))


# %% the largest batch is 0, not 1
# breaks: Return 0 if not even one
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return max(1, (gpu_gib * 2**30 - measure(1) + slope) // slope)


# %% Rounded up or to the nearest
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    return max(0, round((gpu_gib * 2**30 - measure(1) + slope) / slope))


# %% optimizer state need room first
def largest_batch(measure, gpu_gib):
    return gpu_gib * 2**30 // (measure(2) - measure(1))


# %% a single sample fits
# breaks: Return 0 if not even one sample fits
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    if measure(1) >= gpu_gib * 2**30:
        return 0
    return (gpu_gib * 2**30 - measure(1)) // slope + 1


# %% a single sample fits
# breaks: A batch fits if its peak is at most
def largest_batch(measure, gpu_gib):
    slope = measure(2) - measure(1)
    found = (gpu_gib * 2**30 - measure(1)) // slope + 1
    return found if found > 1 else 0
