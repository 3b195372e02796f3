"""What should be recomputed?"""
