"""Where are grades kept, and everything else that a course keeps?"""
