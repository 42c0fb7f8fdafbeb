"""Let work that keeps processors busy make way for the pages and the engine, which only answer.

A child of a session of its own (`start_new_session`) is a group of its own to Linux's scheduler where that groups
processes automatically; there the group's weight counts, and a process's only inside it. So both are lowered.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NICE = 5
"""So many steps lower: a third of the weight. More would starve it beside other programs of a busy machine; with
nothing else to do it gets every processor whole."""
_LOWEST = 19


def make_way(leader: int) -> None:
    """Lower the priority of a child that leads its own process group, and of what it starts from now on."""
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PGRP, leader, min(_LOWEST, os.getpriority(os.PRIO_PROCESS, 0) + NICE))
    with contextlib.suppress(OSError):  # no such groups in this kernel, or too many changes a second
        Path(f"/proc/{leader}/autogroup").write_text(str(NICE))
