"""How does an author begin an assignment, and release it to students?"""
