"""Make a PASSED kernel a `torch.library` operator, launched from its stored build."""
