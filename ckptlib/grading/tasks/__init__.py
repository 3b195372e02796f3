"""What does an author write? Probes, inputs and quiz questions, and what is compared of their answers."""
