"""End a child process with the process that started it, however that ended, and leave no zombie of one that ended.

`python -m cutegen_core.machine.parent PID MODULE ARGUMENTS...` runs a module in a process that the kernel kills with
its parent, PID: it needs no thread in the child, and a program that computes for long cannot delay it.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import select
import signal
import subprocess
import sys
import threading

_PR_SET_PDEATHSIG = 1


def exit_when_closed(fd: int) -> None:
    """Start a thread that ends this process as soon as the other end of a pipe or socket is closed."""
    watch = select.poll()
    watch.register(fd, select.POLLRDHUP)  # poll always reports POLLHUP and POLLERR

    def wait() -> None:
        watch.poll()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread of `parent` that started it ends; leave if it has already."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def reap(child: subprocess.Popen[bytes]) -> None:
    """Start a thread that waits for a child, which may end by itself when nobody asks for it any more."""
    threading.Thread(target=child.wait, name=f"waits for {child.pid}", daemon=True).start()


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process which dies with this one."""
    return [sys.executable, "-m", "cutegen_core.machine.parent", str(os.getpid()), module, *arguments]


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    module, sys.argv = sys.argv[2], sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
