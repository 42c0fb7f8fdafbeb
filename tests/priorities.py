"""What Linux's scheduler weighs a process by: its own niceness, and that of its automatic group."""

import os
from pathlib import Path


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def group_niceness(pid: int) -> int | None:
    """Return that of the group; None where this kernel makes none, or something else groups the process."""
    try:
        said = Path(f"/proc/{pid}/autogroup").read_text()
    except FileNotFoundError:
        return None
    return int(said.split()[-1]) if said else None
