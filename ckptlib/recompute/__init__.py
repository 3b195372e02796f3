"""How is something computed again?"""
