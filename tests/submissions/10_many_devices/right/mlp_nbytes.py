# %% a list of things, each with its divisor
def mlp_nbytes(s, b, h, t, itemsize, way):
    on_tokens = {"tensor": 1, "kept": t, "again": t}[way]
    on_x = {"tensor": 1, "kept": 1, "again": t}[way]
    things = [(h, on_tokens), (1, on_tokens), (1, on_tokens), (h, on_x), (4 * h, t), (4 * h, t)]
    return round(sum(itemsize * b * s * size / divisor for size, divisor in things))


# %% it measures instead
def mlp_nbytes(s, b, h, t, itemsize, way):
    return measured(s, b, h, t, {4: torch.float32, 8: torch.float64}[itemsize], way)
