"""Which models does the book measure, and how many bytes do they need by formula?"""

from .mlp import MLP, mlp_step

__all__ = ["MLP", "mlp_step"]
