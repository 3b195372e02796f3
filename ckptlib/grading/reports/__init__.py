"""How did it go? Reports, exports, similar submissions, and what a reader has solved."""
