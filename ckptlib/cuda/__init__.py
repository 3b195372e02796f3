"""What would a GPU have done?"""
