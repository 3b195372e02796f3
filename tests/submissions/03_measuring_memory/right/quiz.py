# %% capitals and brackets
q1, q2, q3, q4 = "B", "(a)", "d.", " c "
