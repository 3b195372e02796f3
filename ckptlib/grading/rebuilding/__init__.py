"""What did the student hand in? Whatever happened to the file, its answers in the release's notebook."""
