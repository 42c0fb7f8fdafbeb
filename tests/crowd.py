"""Make the machine busy: this process and its children share one processor with others that never rest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def crowded(others: int = 7, pid: int = 0) -> Iterator[None]:
    """Give a process, by default this one, a small part of one processor inside the block."""
    before, here = os.sched_getaffinity(pid), os.sched_getaffinity(0)
    os.sched_setaffinity(pid, {min(before)})
    os.sched_setaffinity(0, {min(before)})
    # a session each: the scheduler divides the processor among sessions first
    command = [sys.executable, "-S", "-c", "while True: pass"]
    spinning = [subprocess.Popen(command, start_new_session=True) for _ in range(others)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
        os.sched_setaffinity(pid, before)
        os.sched_setaffinity(0, here)
