"""Kernels on a GPU through the CUDA driver, in torch-free processes over memory that somebody else owns."""
