"""Is there a GPU for somebody who has none? PyTorch's own CUDA code, running on a stand-in for CUDA."""
