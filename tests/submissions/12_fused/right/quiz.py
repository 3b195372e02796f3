# %% in capitals, with brackets
q1, q2, q3, q4 = "(B)", " D", "a.", "C"


# %% one by one, from a string
q1, q2, q3, q4 = "bdac"


# %% with a dot
q1, q2, q3, q4 = "b.", "d.", "a.", "c."


# %% from a dict
q1, q2, q3, q4 = {"q1": "B", "q2": "D", "q3": "A", "q4": "C"}.values()


# %% in the other order
q4 = "c"
q3 = "a"
q2 = "(d)"
q1 = "b"
