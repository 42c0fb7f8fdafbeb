"""The reference and the comparison: the only code that imports torch, in a sandboxed worker."""
