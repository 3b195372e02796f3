"""What did the student hand in? From the bytes of files to the cells that are run."""
