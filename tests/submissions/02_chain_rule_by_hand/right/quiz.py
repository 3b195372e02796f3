# %% in capitals, with brackets
q5 = "(B)"
q4 = " d"
q3 = "A."
q2 = "b"
q1 = "C"
