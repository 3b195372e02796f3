# %% Backward comes after the reading
q1, q2, q3, q4 = "a", "a", "d", "c"


# %% the peak of the step is later
q1, q2, q3, q4 = "b", "b", "d", "c"


# %% it cannot make the difference
q1, q2, q3, q4 = "b", "d", "d", "c"


# %% It was reset
q1, q2, q3, q4 = "b", "a", "c", "c"


# %% neither figure counts it
q1, q2, q3, q4 = "b", "a", "d", "b"


# %% not answered
q1, q2, q3, q4 = "b", "a", None, "c"
