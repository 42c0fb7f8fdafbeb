"""From a model's reply to a kernel file."""
