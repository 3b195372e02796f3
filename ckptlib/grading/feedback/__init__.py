"""What does a student get back?"""
