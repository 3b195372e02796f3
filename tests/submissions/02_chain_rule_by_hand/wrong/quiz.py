# %% detach() copies nothing
q1, q2, q3, q4, q5 = "d", "b", "a", "d", "b"


# %% it takes no n x n matrix
q1, q2, q3, q4, q5 = "c", "a", "a", "d", "b"


# %% for an addition that is nothing
q1, q2, q3, q4, q5 = "c", "b", "d", "d", "b"


# %% mentions the probabilities y alone
q1, q2, q3, q4, q5 = "c", "b", "a", "a", "b"


# %% Nobody compares the values
q1, q2, q3, q4, q5 = "c", "b", "a", "d", "a"


# %% not answered
q1, q2, q3, q4, q5 = "c", "b", None, "d", "b"
