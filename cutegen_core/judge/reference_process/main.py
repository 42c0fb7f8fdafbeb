"""Program of the reference worker: `python -m cutegen_core.judge.reference_process.main SCRATCH MEMORY_BYTES [--fork]`.

1. Enters the sandbox: no network, no files but Python's, torch's and `SCRATCH`, no other programs. This happens before
   torch is imported, because threads that already run would stay outside.
2. Imports torch and answers requests (`worker.ReferenceHandler`).
3. With `--fork`, a forked child that cannot fork again answers each request: files of a folder cannot affect each
   other, a file that hangs is stopped alone, and torch is imported once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import site
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from cutegen_core import PACKAGE
from cutegen_core.machine.sandbox import syscall_filter
from cutegen_core.machine.sandbox.confine import apply
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel
from cutegen_core.machine.worker import Message, serve

_CPU_SECONDS = 24 * 3600
_FILE_BYTES = 64 << 30
_WARM_UP = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.rand(1)]
"""
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/dev/null", "/dev/zero", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system",
)  # fmt: skip


def main() -> None:
    """Run the worker."""
    scratch, memory_bytes = Path(sys.argv[1]), int(sys.argv[2])
    forks = "--fork" in sys.argv[3:]
    os.environ.setdefault("USER", "cutegen")  # torch asks for a user name, and /etc/passwd is unreadable
    level = shut_in(scratch, memory_bytes, processes=forks)
    from cutegen_core.judge.reference_process.worker import (
        ReferenceHandler,  # torch must not be imported before the sandbox
    )

    handle = ReferenceHandler().handle
    if forks:
        # torch imports 800 more modules at its first fake tensor (1 s): do it once here, not in every child
        handle({"operation": "graph", "source": _WARM_UP, "origin": "warm-up"})
    serve(_answer_in_child(handle, filtered=level is not SandboxLevel.NONE) if forks else handle)


def shut_in(scratch: Path, memory_bytes: int, *, processes: bool) -> SandboxLevel:
    """Enter the sandbox; the worker's private home stays writable for torch's temporary files."""
    home = Path(os.environ["HOME"])
    return apply(
        Policy(
            read=_readable(), write=(scratch, home), memory_bytes=memory_bytes, cpu_seconds=_CPU_SECONDS,
            file_bytes=_FILE_BYTES, processes=processes,
        )
    )  # fmt: skip


def _readable() -> tuple[Path, ...]:
    """Return the readable folders: Python, its packages and this package, but no folder of the user."""
    installed = [p for p in sys.path if p and Path(p).resolve() not in (PACKAGE.parent, Path.cwd())]
    python = [*sysconfig.get_paths().values(), *site.getsitepackages(), sys.base_prefix + "/lib", *installed]
    candidates = {Path(p).resolve() for p in [*python, *_SYSTEM]} | {PACKAGE}
    return tuple(sorted(p for p in candidates if p.exists() and p != Path("/")))


def _answer_in_child(handle: Callable[[Message], Message], *, filtered: bool) -> Callable[[Message], Message]:
    def answer(request: Message) -> Message:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _run_child(handle, request, writer, filtered=filtered)
        os.close(writer)
        return _collect_answer(child, reader, float(request["seconds"]))

    return answer


def _run_child(handle: Callable[[Message], Message], request: Message, writer: int, *, filtered: bool) -> NoReturn:
    """Answer one request and exit in every case: the parent's loop must never run twice."""
    try:
        # Landlock already restricts files (children inherit it); only forking remains to be forbidden
        if filtered:
            syscall_filter.install(files="write", processes=False, may_exec=False)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(handle(request)).encode())
    finally:
        os._exit(0)


def _collect_answer(child: int, reader: int, seconds: float) -> Message:
    """Return the child's answer; a child that takes too long or dies also gives an answer."""
    deadline, data, late = time.monotonic() + seconds, b"", False
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(reader, 1 << 16) if ready else b""
        if not chunk:
            late = not ready
            break
        data += chunk
    os.close(reader)
    if late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if late:
        return {"limit": f"ran past {seconds:g} s (an endless loop?)"}
    if not data:
        return {"limit": f"ended its process (status {os.waitstatus_to_exitcode(status)})"}
    answer: Message = json.loads(data)
    return answer


if __name__ == "__main__":
    main()
