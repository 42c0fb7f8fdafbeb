"""Program of the reference worker, with the arguments SCRATCH and MEMORY_BYTES.

1. It begins as a fork of a process that has imported torch and runs no file's code (`machine.fork_server`), with one
   thread (where that is impossible as a new program, which imports torch itself), and enters the sandbox: no network,
   no files but Python's, torch's and `SCRATCH`, no other programs.
2. It answers requests (`supervisor.Supervisor`), but runs no problem file's code itself: each file gets a process of
   its own, forked from this one (`file_process`), which is shut in further and cannot reach an answer's pipe.
"""

from __future__ import annotations

import os
import resource
import site
import socket
import sys
import sysconfig
import tempfile
from pathlib import Path

from cutegen_core.judge.reference_process import worker
from cutegen_core.judge.reference_process.file_process import FileProcess
from cutegen_core.judge.reference_process.supervisor import Supervisor
from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.sandbox import landlock, syscall_filter
from cutegen_core.machine.sandbox.confine import apply
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel
from cutegen_core.machine.worker import serve

_CPU_SECONDS = 24 * 3600
_FILE_BYTES = 64 << 30
_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/dev/null", "/dev/zero", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system",
)  # fmt: skip


def main() -> None:
    """Run the worker."""
    scratch, memory_bytes = Path(sys.argv[1]), int(sys.argv[2])
    os.environ.setdefault("USER", "cutegen")  # torch asks for a user name, and /etc/passwd is unreadable
    level = shut_in(scratch, memory_bytes)
    worker.set_up_torch()
    # Looked for here: a file's process can write nowhere, and torch asks at its import, and at the first fake tensor
    # for a folder of its compiler's, which is made unless it is there.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())

    def serve_file(channel: socket.socket) -> None:
        shut_in_file(level, scratch)
        worker.serve_file(channel)

    serve(Supervisor(FileProcess(serve_file)).handle)


def shut_in(scratch: Path, memory_bytes: int) -> SandboxLevel:
    """Enter the sandbox; the worker's private home stays writable for torch's temporary files."""
    home = Path(os.environ["HOME"])
    return apply(
        Policy(
            read=_readable(), write=(scratch, home), memory_bytes=memory_bytes, cpu_seconds=_CPU_SECONDS,
            file_bytes=_FILE_BYTES, processes=True,
        )
    )  # fmt: skip


def shut_in_file(level: SandboxLevel, scratch: Path) -> None:
    """Shut a file's process in further: it writes nothing, starts nothing, and cannot read a kernel's outputs.

    A folder of Python's path that holds `scratch` is not readable either.
    """
    for output in (1, 2):  # the worker's log is not its own
        os.dup2(0, output)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if level is SandboxLevel.LANDLOCK_SECCOMP:
        inside = scratch.resolve()
        landlock.enter(read=[p for p in _readable() if not inside.is_relative_to(p)], write=(), execute=())
    if level is not SandboxLevel.NONE:
        syscall_filter.install(files="read", processes=False, may_exec=False)


def _readable() -> tuple[Path, ...]:
    """Return the readable folders: Python, its packages and this package, but no folder of the user."""
    installed = [p for p in sys.path if p and Path(p).resolve() not in (PACKAGE.parent, Path.cwd())]
    python = [*sysconfig.get_paths().values(), *site.getsitepackages(), sys.base_prefix + "/lib", *installed]
    candidates = {Path(p).resolve() for p in [*python, *_SYSTEM]} | {PACKAGE}
    return tuple(sorted(p for p in candidates if p.exists() and p != Path("/")))
