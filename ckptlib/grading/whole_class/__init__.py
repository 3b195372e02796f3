"""How is a whole class graded?"""
