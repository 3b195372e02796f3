# %% two different algorithms
q1 = "a"


# %% at k = 10 = √100 it is lowest
q2 = "c"


# %% Slots and repeats can be traded
q3 = "b"


# %% √n is for checkpoints as large as what a stage saves
q4 = "a"
