# %% in capitals, with brackets
q4 = "(A)"
q3 = " D"
q2 = "c."
q1 = "B"
