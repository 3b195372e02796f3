"""What is recomputed? Checkpointing, schedules and planners: every way of paying time for memory."""
