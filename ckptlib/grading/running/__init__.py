"""How is a kernel that nobody trusts spoken to? Cells in, outputs and answers out, always within the limits."""
