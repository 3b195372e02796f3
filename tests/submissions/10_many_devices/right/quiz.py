# %% in capitals, with brackets
q1, q2, q3, q4 = "C", "(b)", "D.", " a "
