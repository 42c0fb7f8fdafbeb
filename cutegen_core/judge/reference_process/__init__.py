"""Sandboxed process that runs a reference on the CPU; `judge.reference` is its client.

The names of its modules stand here, so that a command can have its fork server import them before anything else.
"""

PROGRAM = "cutegen_core.judge.reference_process.main"
TRACED = "cutegen_core.judge.reference_process.traced"
"""Imported as well for requests that need fake tensors."""
