"""Compile and run a candidate in a sandbox. Start with `port`."""
