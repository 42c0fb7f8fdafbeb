"""Sandboxed process that runs a reference on the CPU; `judge.reference` is its client."""
