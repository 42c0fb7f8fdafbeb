"""Run a job's program as a child process: read its lines, keep its log, end it.

The child dies with the engine, however that ended (`machine.parent`). What it prints on stderr goes to a log of bounded
size, whose last lines say why it crashed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from cutegen_core.machine import parent, workspace
from cutegen_core.machine.child_environment import child_environment

LONGEST_LINE = 64 << 20
"""A result holds the spans of all epochs; a child that never ends a line must not fill the memory."""
LOG_BYTES = 2 << 20
_PASSED_THROUGH = ("CUDA_", "NCCL_", "OMP_", "CUTEGEN_HOST_CXX", "CUTEGEN_SAMPLER_CC")
"""Beginnings of what a run's libraries read of the environment; keys of model servers are not among them."""
_LAST_LINES, _LONGEST_TOLD = 12, 400
_AFTER_EXIT_S = 1.0
"""How long to read on after the child has ended: a process that it left may hold its pipes open for ever."""


class BoundedLog:
    """A file that keeps at least its last `limit` bytes, and at most twice as many (`log` and `log.old`)."""

    def __init__(self, path: Path, limit: int = LOG_BYTES) -> None:
        self._path, self._limit = path, limit
        self._file = workspace.make_private(path).open("ab")
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._open_line = ""

    def write(self, data: bytes) -> None:
        """Append; an error of the disk loses the log, not the job."""
        *lines, rest = (self._open_line + data.decode(errors="replace")).split("\n")
        self._last += [line[:_LONGEST_TOLD] for line in lines if line.strip()]
        self._open_line = rest[-_LONGEST_TOLD:]
        with contextlib.suppress(OSError):
            for start in range(0, len(data), self._limit):
                self._append(data[start : start + self._limit])

    def note(self, text: str) -> None:
        """Append a line of the engine's own, which is not among the child's last lines."""
        with contextlib.suppress(OSError):
            self._append(f"[{time.strftime('%F %T')}] {text}\n".encode())

    def last_lines(self) -> str:
        return "\n".join([*self._last, self._open_line]).strip()

    def close(self) -> None:
        self._file.close()

    def _append(self, data: bytes) -> None:
        if self._file.tell() and self._file.tell() + len(data) > self._limit:
            self._file.close()
            os.replace(self._path, self._path.with_name(self._path.name + ".old"))
            self._file = workspace.make_private(self._path).open("ab")
        self._file.write(data)
        self._file.flush()


class LineTooLongError(Exception):
    """The child sent more than `LONGEST_LINE` bytes without an end of line."""


class JobProcess:
    """One child, started at once; a context that leaves nothing of it behind."""

    def __init__(self, module: str, arguments: Sequence[str], log: BoundedLog) -> None:
        self._log, self._pending = log, bytearray()
        self._home = tempfile.TemporaryDirectory(prefix="cutegen-job-", ignore_cleanup_errors=True)
        passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_THROUGH)}
        environment = child_environment(Path(self._home.name)) | passed | {"CUTEGEN_HOME": str(workspace.home())}
        self._process = subprocess.Popen(
            parent.command(module, *arguments), env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._pipes = selectors.DefaultSelector()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            self._pipes.register(pipe, selectors.EVENT_READ)
        self._ended_at: float | None = None

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        self._pipes.close()
        self._home.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int:
        """Return the exit code; negative for a signal. Only once it `is_over`."""
        return self._process.wait()

    def is_over(self) -> bool:
        """Return whether it has ended and all that it printed was read."""
        if self._process.poll() is None:
            return False
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        return not self._pipes.get_map() or time.monotonic() - self._ended_at > _AFTER_EXIT_S

    def lines(self, wait_s: float) -> list[bytes]:
        """Return the lines that it has printed, after waiting for the first for a while; log its stderr.

        Raises:
            LineTooLongError: a line that never ends.
        """
        found: list[bytes] = []
        if not self._pipes.get_map():
            time.sleep(wait_s)
        for key, _ in self._pipes.select(wait_s) if self._pipes.get_map() else ():
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._pipes.unregister(key.fileobj)
            if key.fileobj is self._process.stderr:
                self._log.write(data)
                continue
            self._pending += data
            if b"\n" in data:
                *whole, rest = bytes(self._pending).split(b"\n")
                found, self._pending = [*found, *whole], bytearray(rest)
        if len(self._pending) > LONGEST_LINE:
            raise LineTooLongError
        return found

    def ask_to_end(self) -> None:
        """Ask it to finish what it is doing; it ends its own children."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and every process of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
