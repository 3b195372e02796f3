"""What do CUDA kernels allocate that no dispatcher sees?"""
