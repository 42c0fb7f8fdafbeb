"""Time the kernels of the serving problems."""
