"""Start children as forks of a process that has imported what takes long (`fork_server`).

A process has one fork server, started when a child is first asked for; the children of all threads are its forks.

It does not make way, as its children do (`worker`): while torch is imported, whoever asked waits for that, and has
nothing else to do once its own modules are there.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cutegen_core.machine import parent
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.machine.fork_server import LARGEST_REQUEST, ONE_THREAD, STATUS
from cutegen_core.records.errors import MachineError

_KILLED = -signal.SIGKILL


class Forked:
    """A child, with what `subprocess.Popen` has of it."""

    def __init__(self, life: socket.socket, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._life = life
        self._lost = False

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; TimeoutExpired if it still runs after `timeout` seconds."""
        found = self._read(timeout)
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return found

    def kill_group(self) -> None:
        """End it and every process of its group, and let its number go; returns when it has ended."""
        if not self._lost:  # else nobody keeps its number from being another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._read(None)
        self._life.close()

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._life, select.POLLIN)
            if poll.poll(None if timeout is None else 1000 * timeout):
                data = self._life.recv(STATUS.size)
                self._lost = len(data) < STATUS.size  # its fork server was killed, and it with that
                self.returncode = _KILLED if self._lost else STATUS.unpack(data)[0]
        return self.returncode


class ForkServerClient:
    """The fork server of this process. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def prepare(self, imports: Sequence[str]) -> None:
        """Have these modules imported for the children to come; does not wait for it."""
        with self._lock:
            self._send({"imports": imports}, [])

    def start(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], *, log: int, fds: Sequence[int],
        imports: Sequence[str],
    ) -> Forked:  # fmt: skip
        """Start a child that runs `main` of a module.

        Args:
            log: descriptor of what it prints.
            fds: descriptors that it gets; `CUTEGEN_PIPES` in its environment has their numbers.
            imports: modules that the fork server imports first.

        Raises:
            MachineError: the fork server does not start, or was killed twice.
        """
        request = {
            "imports": imports, "module": module, "arguments": arguments, "environment": environment,
            "folder": os.getcwd(), "path": sys.path,
        }  # fmt: skip
        for _ in range(2):  # it may have ended just now, for having been idle
            ours, theirs = socket.socketpair()
            with self._lock:
                self._send(request, [theirs.fileno(), log, *fds])
            theirs.close()
            started = _read_pid(ours)
            if started is not None:
                return Forked(ours, started)
            ours.close()
            self.close()
        raise MachineError("the process from which the reference workers are forked ended before it had started one.")

    def close(self) -> None:
        """End the fork server, and with it every child that still runs."""
        with self._lock:
            self._close()

    def _send(self, request: Mapping[str, object], fds: Sequence[int]) -> None:
        data = json.dumps(request).encode()
        if len(data) > LARGEST_REQUEST:
            raise MachineError(f"the environment and Python's path have {len(data)} bytes: shorten PYTHONPATH.")
        try:
            socket.send_fds(self._running(), [data], fds)
        except ConnectionError:  # it has just ended
            self._close()
            socket.send_fds(self._running(), [data], fds)

    def _running(self) -> socket.socket:
        """Return the socket of a fork server that runs."""
        if self._process is None or self._control is None or self._process.poll() is not None:
            self._close()
            self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            command = [sys.executable, "-P", "-m", "cutegen_core.machine.fork_server", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, env=child_environment(Path(os.devnull)) | ONE_THREAD, pass_fds=[theirs.fileno()],
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            parent.reap(self._process)
            theirs.close()
        return self._control

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


def _read_pid(life: socket.socket) -> int | None:
    """Return the child's number, None if the fork server ended before it had one."""
    try:
        data = life.recv(STATUS.size)
    except ConnectionError:
        return None
    return int(STATUS.unpack(data)[0]) if len(data) == STATUS.size else None


@cache
def shared() -> ForkServerClient:
    """Return the fork server of this process."""
    made = ForkServerClient()
    atexit.register(made.close)
    return made
