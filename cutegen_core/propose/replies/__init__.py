"""Turn a model's reply into a kernel file."""
