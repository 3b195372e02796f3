"""How is a submission run and tested? Cells in, outputs and answers out, always within the limits."""
