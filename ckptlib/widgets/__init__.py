"""What happens when a knob moves? One small module per explorer; each shows itself in Jupyter and needs a kernel."""
