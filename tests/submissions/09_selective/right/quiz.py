# %% in capitals, with brackets
q1, q2 = "B", "(d)"
q3 = " c "
q4 = "a."
