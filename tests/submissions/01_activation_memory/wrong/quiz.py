# %% It makes it slower
q1, q2, q3, q4 = "c", "c", "d", "b"


# %% y's value is not needed
q1, q2, q3, q4 = "b", "a", "d", "b"


# %% that is not wanted here
q1, q2, q3, q4 = "b", "c", "a", "b"


# %% Under no_grad there is none
q1, q2, q3, q4 = "b", "c", "d", "c"


# %% not answered
q1, q2, q3, q4 = "b", "c", None, "b"
