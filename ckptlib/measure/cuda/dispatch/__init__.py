"""Which ops would CUDA have run? A CPU program made to dispatch them."""
