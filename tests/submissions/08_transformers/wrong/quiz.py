# %% master weights are added
q1, q2, q3, q4 = "a", "c", "d", "a"


# %% It has to come from somewhere
q1, q2, q3, q4 = "b", "b", "d", "a"


# %% Each step is rounded on its own
q1, q2, q3, q4 = "b", "c", "a", "a"


# %% backward has hardly begun
q1, q2, q3, q4 = "b", "c", "d", "d"


# %% not answered
q1, q2, q3, q4 = "b", "c", "d", None
