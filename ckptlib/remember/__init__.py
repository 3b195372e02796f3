"""What is remembered for backward, and what else takes up memory?"""
