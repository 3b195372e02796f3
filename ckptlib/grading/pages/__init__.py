"""What do students and instructors read afterwards? Feedback, reports, likenesses."""
