"""CuTeGen Workbench: from a PyTorch reference to a fast, proven CuTe kernel, step by step."""

from pathlib import Path

__version__ = "0.1.0"

PACKAGE = Path(__file__).resolve().parent
"""The folder of this package, for the processes that are started from it and shut in around it."""
