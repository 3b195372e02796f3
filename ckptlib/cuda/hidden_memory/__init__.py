"""What do CUDA kernels allocate that no tensor shows?"""
