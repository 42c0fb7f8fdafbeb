"""Forks of the compile server: each works in the sandbox, within limits, and sends answers through a pipe."""

from __future__ import annotations

import ctypes
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from cutegen_core.machine.sandbox import confine, sandbox
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel

SHARED_MEMORY, TEMPORARY = Path("/dev/shm"), "cutegen-compile-"

_POLL_S = 0.05
_LARGEST_ANSWER_BYTES = 256 << 20
_ADDRESS_SPACE_SLACK_BYTES = 1 << 30


@dataclass(frozen=True)
class CompileLimits:
    """The limits of compiling one candidate.

    Attributes:
        seconds: processor time.
        memory_bytes: resident memory in addition to the server's own.
        log_bytes: size to which the compiler's log is cut.
    """

    seconds: float = 120.0
    memory_bytes: int = 4 << 30
    log_bytes: int = 1 << 20


Work = Callable[[int, SandboxLevel, Path], None]
"""What a fork does: the pipe's end that it writes to, the sandbox's level, its folder for temporary files."""


class Fork:
    """A fork that works from now on.

    Args:
        reads: what it may read.
        folder: where its temporary files are if memory has no room for them.
        keeps: descriptors that it needs besides its pipe.

    Attributes:
        reading: this process's end of the pipe.
    """

    def __init__(
        self, work: Work, reads: Collection[Path], limits: CompileLimits, folder: Path, keeps: Collection[int] = ()
    ) -> None:
        self._base_bytes = _resident_bytes(os.getpid())
        self._temporary = Path(
            tempfile.mkdtemp(prefix=f"{TEMPORARY}{os.getpid()}-", dir=_choose_heap_folder(limits, folder))
        )
        self.reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._run(work, reads, limits, writing, keeps)
        os.close(writing)

    def read(self, limits: CompileLimits) -> tuple[bytes, str]:
        """Return what it writes until it ends, and the limit that it exceeds ("", "time", "memory" or "output").

        Its processor time counts from here on.
        """
        answer = bytearray()
        begun, deadline = _processor_seconds(self._pid), time.monotonic() + limits.seconds * sandbox.PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self.reading, selectors.EVENT_READ)
            while True:
                if _processor_seconds(self._pid) - begun > limits.seconds or time.monotonic() > deadline:
                    return b"", "time"
                if _resident_bytes(self._pid) > self._base_bytes + limits.memory_bytes:
                    return b"", "memory"
                if not selector.select(_POLL_S):
                    continue
                chunk = os.read(self.reading, 1 << 20)
                if not chunk:
                    return bytes(answer), ""
                answer += chunk
                if len(answer) > _LARGEST_ANSWER_BYTES:
                    return b"", "output"

    def end(self) -> tuple[int, int]:
        """Kill it, unless it has ended, and remove its files; return its exit code and its largest memory in bytes."""
        os.close(self.reading)
        sandbox.kill_group(self._pid)
        os.kill(self._pid, signal.SIGKILL)  # it may not have created its process group yet
        _, status, usage = os.wait4(self._pid, 0)
        shutil.rmtree(self._temporary, ignore_errors=True)
        return os.waitstatus_to_exitcode(status), max(0, usage.ru_maxrss * 1024 - self._base_bytes)

    def _run(
        self, work: Work, reads: Collection[Path], limits: CompileLimits, writing: int, keeps: Collection[int]
    ) -> None:
        """Work in the fork and end its process; never returns."""
        try:
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: die with the server
            os.environ["TMPDIR"] = str(self._temporary)
            os.chdir(self._temporary)
            _close_all_but({writing, *keeps})
            level = confine.apply(self._policy(reads, limits))
            work(writing, level, self._temporary)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a fork must not return to the server's loop
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _policy(self, reads: Collection[Path], limits: CompileLimits) -> Policy:
        return Policy(
            read=tuple(reads),
            write=(self._temporary,),
            memory_bytes=_read_statm(os.getpid(), 0) + limits.memory_bytes + _ADDRESS_SPACE_SLACK_BYTES,
            cpu_seconds=int(limits.seconds) + 1,
            file_bytes=limits.memory_bytes,  # the compiler's heap is a file, and grows
        )


def remove_leftovers(folder: Path) -> None:
    """Remove precompiled headers (283 MB each) and heaps of servers that were killed."""
    old = [(path, path.name) for path in folder.glob("[0-9]*")]
    old += [(path, path.name.removeprefix(TEMPORARY).split("-")[0]) for path in SHARED_MEMORY.glob(f"{TEMPORARY}*")]
    for path, pid in old:
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)


def _close_all_but(kept: Collection[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                continue  # the descriptor of the listing itself


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a child that was not waited for."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    return _read_statm(pid, 1)


def _choose_heap_folder(limits: CompileLimits, folder: Path) -> Path:
    """Return the folder for a compiler's heap: in memory if enough is free for its limit, otherwise on disk.

    Memory is better, because a process that writes gigabytes to a disk cannot be killed before they are written.
    """
    there = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return SHARED_MEMORY if there and shutil.disk_usage(SHARED_MEMORY).free > limits.memory_bytes else folder


def _read_statm(pid: int, field: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
