"""Run NVIDIA's command-line tools: Nsight Compute and compute-sanitizer."""
