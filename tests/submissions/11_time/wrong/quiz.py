# %% That would be so if it were limited by FLOPs
q1, q2, q3, q4 = "a", "d", "a", "c"


# %% so MFU falls
q1, q2, q3, q4 = "b", "b", "a", "c"


# %% each could only gain F/20
q1, q2, q3, q4 = "b", "d", "b", "c"


# %% which happens once and not in each step
q1, q2, q3, q4 = "b", "d", "a", "b"


# %% not answered
q1, q2, q3, q4 = "b", "d", None, "c"
