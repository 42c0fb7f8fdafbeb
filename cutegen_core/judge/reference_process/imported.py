"""Import torch and what answers requests: what every worker needs, before it is forked (`machine.fork_server`)."""

from cutegen_core.judge.reference_process import main

__all__ = ["main"]
