"""Judge kernels: run the reference and compare outputs with it. Only its sandboxed workers import torch."""
