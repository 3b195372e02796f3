"""Which ops would CUDA have run? A program on the CPU is made to dispatch them."""
