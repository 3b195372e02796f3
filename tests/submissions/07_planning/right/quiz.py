# %% in capitals, with brackets
q1, q2 = "B", "(c)"
q3 = " d "
q4 = "a."
