"""How is one submission graded?"""
