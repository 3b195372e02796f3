# %% capitals
q1, q2, q3, q4 = "B", "D", "A", "C"
