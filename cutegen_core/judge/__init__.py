"""Right or wrong: the reference and the comparison. Torch is imported here, in sandboxed workers only."""
