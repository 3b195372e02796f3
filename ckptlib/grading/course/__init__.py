"""How is a class graded? From submitted/ to the gradebook, with nothing lost on the way."""
