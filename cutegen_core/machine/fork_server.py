"""Program of a fork server: `python -P -m cutegen_core.machine.fork_server FD`; `forking` is its client.

Importing torch takes a second of a processor. A fork server imports it once, runs nobody's code but that of the modules
it was asked to import, and starts children as forks of itself, in milliseconds:

1. A request names modules to import first, the child's module, arguments, environment and folder, and brings the
   descriptors that the child gets, and a socket for its life.
2. The child is a session of its own with one thread, as a new process: it can still enter a sandbox. It has the
   descriptors of its request and no others, and dies with the fork server.
3. Its number goes back through the socket, and later its wait status. It stays a zombie until the other end is closed,
   so that its number is nobody else's while somebody may send signals to it.
4. Where the other end is closed, the child and its group are killed. Where the client ends, everything does.

A fork of a process with several threads may wait for ever for a lock that one of the others held. Its modules are asked
to start none (`forking`), and where one has, a child is a new program, which imports them itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from cutegen_core.machine.parent import die_with

Request = dict[str, Any]

STATUS = struct.Struct(">i")
"""A child's number, and later its exit code as `subprocess` gives it."""
LARGEST_REQUEST = 1 << 17
MOST_DESCRIPTORS = 16
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Environment in which numpy and torch start no thread: no pool for products, and no GPU's driver, which torch would
start to find out whether there is a GPU (torch.cuda.is_available)."""
IDLE_S = 120.0
"""So long after its last child it ends: the next request starts another."""
_LIFE, _LOG = 0, 1
"""Places of a request's own descriptors; those behind them are the child's."""


class _Child(NamedTuple):
    pid: int
    life: socket.socket


class ForkServer:
    """Serve one client.

    Args:
        control: where its requests come from.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, _Child] = {}
        self._ended: set[int] = set()
        self._wakes = _wake_when_a_child_ends()

    def serve(self) -> None:
        """Start and end children until the client is gone, or has had none for a while."""
        idle_since = time.monotonic()
        while self._children or time.monotonic() - idle_since < IDLE_S:
            ready = {fd for fd, _ in self._poll().poll(1000 * IDLE_S)}
            if self._wakes in ready:
                os.read(self._wakes, 4096)
            self._tell_ends()
            for fd in ready & self._children.keys():
                self._bury(self._children.pop(fd))
            if self._children:
                idle_since = time.monotonic()
            if self._control.fileno() in ready and not self._answer():
                break
        for child in self._children.values():
            self._bury(child)

    def _poll(self) -> select.poll:
        poll = select.poll()
        for fd in (self._control.fileno(), self._wakes, *self._children):
            poll.register(fd, select.POLLIN)  # a closed other end is reported as readable
        return poll

    def _answer(self) -> bool:
        """Carry out one request; return False after the last one."""
        data, fds, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST, MOST_DESCRIPTORS)
        if not data:
            return False
        request: Request = json.loads(data)
        try:
            for module in request["imports"]:
                importlib.import_module(module)
        except Exception:  # noqa: BLE001 - the child imports it again, and says so in its log
            traceback.print_exc()
        if fds:
            self._start(request, fds)
        return True

    def _start(self, request: Request, fds: Sequence[int]) -> None:
        gc.collect()
        gc.freeze()  # what is there stays shared: a child's collector does not write to it
        others = _other_threads()
        if others:
            print(f"fork server with the threads {', '.join(others)}: children are new programs.", file=sys.stderr)
        parent, pid = os.getpid(), _fork()
        if pid == 0:
            _run(request, fds, parent, forked=not others)
        life = socket.socket(fileno=fds[_LIFE])
        for fd in fds[_LOG:]:
            os.close(fd)
        self._children[life.fileno()] = _Child(pid, life)
        _send(life, pid)

    def _tell_ends(self) -> None:
        for child in self._children.values():
            if child.pid in self._ended:
                continue
            found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self._ended.add(child.pid)
                _send(child.life, found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)

    def _bury(self, child: _Child) -> None:
        for kill in (os.killpg, os.kill):  # it may not lead its group yet
            try:
                kill(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.waitpid(child.pid, 0)
        self._ended.discard(child.pid)
        child.life.close()


def _other_threads() -> list[str]:
    """Return the names of this process's threads but the first."""
    tasks = sorted(Path("/proc/self/task").iterdir(), key=lambda task: int(task.name))
    return [(task / "comm").read_text().strip() for task in tasks[1:]]


def _fork() -> int:
    with warnings.catch_warnings():  # Python's, that there are several threads: the caller says so
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _send(life: socket.socket, number: int) -> None:
    try:
        life.sendall(STATUS.pack(number))
    except OSError:
        return  # its client has closed it: the next poll says so


def _wake_when_a_child_ends() -> int:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _run(request: Request, fds: Sequence[int], parent: int, *, forked: bool) -> NoReturn:
    """Be the child; never returns.

    Args:
        forked: it may go on as the fork that it is; else it becomes a new program.
    """
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        die_with(parent)
        os.dup2(fds[_LOG], 1)
        os.dup2(fds[_LOG], 2)
        _keep_only(fds[_LOG + 1 :])
        os.environ.clear()
        os.environ.update(request["environment"] | ONE_THREAD | {"CUTEGEN_PIPES": ",".join(map(str, fds[_LOG + 1 :]))})
        gc.enable()
        tempfile.tempdir = None  # of another HOME
        os.chdir(request["folder"])
        if not forked:
            _become_new(request, fds[_LOG + 1 :])
        sys.path[:] = request["path"]
        sys.argv = [request["module"], *request["arguments"]]
        importlib.import_module(request["module"]).main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - a fork must not return to the server's loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become_new(request: Request, kept: Sequence[int]) -> NoReturn:
    """Run the child's module in a new program with these descriptors."""
    for fd in kept:
        os.set_inheritable(fd, True)
    code = "import importlib, sys; sys.argv = sys.argv[1:]; importlib.import_module(sys.argv[0]).main()"
    command = [sys.executable, "-P", "-c", code, request["module"], *request["arguments"]]
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": os.pathsep.join(request["path"])})


def _keep_only(kept: Sequence[int]) -> None:
    """Close every descriptor but these and the standard ones."""
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 1 << 20)


def main() -> None:
    os.environ.setdefault("USER", "cutegen")  # torch asks for a user name
    gc.disable()  # what is imported stays; to look for what does not is a fifth of the time that torch takes
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
