"""What does each derivative need?"""
