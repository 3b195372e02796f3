# %% in capitals, with brackets
q4 = " b "
q3 = "D"
q2 = "(c)"
q1 = "b."
