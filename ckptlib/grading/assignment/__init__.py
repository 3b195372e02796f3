"""What is an assignment made of?"""
