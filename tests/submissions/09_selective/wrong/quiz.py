# %% A bfloat16 number has 2 bytes
q1 = "a"


# %% not equal to its family
q2 = "b"


# %% It is the offload verdicts
q3 = "b"


# %% a kept op draws nothing
q4 = "b"
