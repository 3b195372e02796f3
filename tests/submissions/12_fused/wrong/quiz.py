# %% could not be added
q1, q2, q3, q4 = "a", "d", "a", "c"


# %% This would be a second pass
q1, q2, q3, q4 = "c", "d", "a", "c"


# %% the old keys would be forgotten
q1, q2, q3, q4 = "d", "d", "a", "c"


# %% The output knows this sum already
q1, q2, q3, q4 = "b", "a", "a", "c"


# %% because it depends on dO
q1, q2, q3, q4 = "b", "b", "a", "c"


# %% not a sum that contains dO
q1, q2, q3, q4 = "b", "c", "a", "c"


# %% but not why it is possible
q1, q2, q3, q4 = "b", "d", "b", "c"


# %% dW is computed in the forward pass as well
q1, q2, q3, q4 = "b", "d", "c", "c"


# %% its gradient contains a softmax
q1, q2, q3, q4 = "b", "d", "d", "c"


# %% Only a computation in tiles avoids the square
q1, q2, q3, q4 = "b", "d", "a", "a"


# %% What is saved in forward changes
q1, q2, q3, q4 = "b", "d", "a", "b"


# %% their results are in memory
q1, q2, q3, q4 = "b", "d", "a", "d"


# %% not answered
q1, q2, q3, q4 = "b", None, "a", "c"
