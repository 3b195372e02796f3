"""How is a submission run and asked? Cells in, outputs and answers out, always within the limits."""
