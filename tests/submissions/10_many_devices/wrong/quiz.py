# %% no rank has the activations of another
q1 = "a"


# %% Activations belong to the rank's own sequences
q2 = "a"


# %% All ranks need to know this gradient
q3 = "b"


# %% the better of the two
q4 = "b"
