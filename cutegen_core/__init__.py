"""CuTeGen Workbench: from a PyTorch reference to a fast, proven CuTe kernel, step by step."""

__version__ = "0.1.0"
