# %% in capitals, with brackets
q1, q2 = "(C)", " b"
q4 = "A."
q3 = "d"
