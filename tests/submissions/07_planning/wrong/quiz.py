# %% It may need more
q1 = "a"


# %% It takes its bytes as long as it is kept
q1 = "d"


# %% decided by bytes alone
q2 = "a"


# %% It plans for the chain
q3 = "a"


# %% Revolve is for a chain of equal stages
q4 = "d"
