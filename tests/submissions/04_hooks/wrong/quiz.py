# %% It is stored if some derivative needs it
q1, q2, q3, q4 = "a", "b", "d", "a"


# %% the layer did begin, and was left
q1, q2, q3, q4 = "c", "a", "d", "a"


# %% Zero is stored exactly
q1, q2, q3, q4 = "c", "b", "c", "a"


# %% the checkpoint's own hooks take the tensors
q1, q2, q3, q4 = "c", "b", "d", "b"


# %% not answered
q1, q2, q3, q4 = "c", None, "d", "a"
