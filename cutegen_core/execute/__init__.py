"""Compile and run a candidate, shut in. Start with `port`."""
