"""Generate graphs, and read them from disk."""
