"""Sandboxed process that runs a reference on the CPU; `judge.reference` is its client."""

IMPORTED = "cutegen_core.judge.reference_process.main"
TRACED = "cutegen_core.judge.reference_process.traced"
"""What its fork server imports; here, so that a command can have that begin before it imports anything else."""
