# %% in capitals, with brackets
q1, q2 = "C", "(b)"
q3 = " d "
q4 = "a."
