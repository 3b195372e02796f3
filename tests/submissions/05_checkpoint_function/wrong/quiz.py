# %% an optimizer skips them in silence
q1 = "a"


# %% there before the product is computed
q2 = "a"


# %% That is the reentrant one
q3 = "b"


# %% One segment brings all of it back
q4 = "b"
