"""What happened to memory, in which order?"""
