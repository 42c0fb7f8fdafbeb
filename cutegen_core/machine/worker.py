"""Run a child process that answers JSON requests on a private pair of pipes.

1. `Worker` starts `python -m MODULE` in its own session, with an allow-listed environment and a private home; or, where
   that would take long, a fork of a process that has imported the most of it (`forking`).
2. Requests and answers are JSON objects, one per line, on two inherited descriptors. stdout and stderr go to a log
   file, so code inside the child can print without forging an answer. An answer repeats its request's nonce: one that
   was sent before the request is not taken for it.
3. On request, a Unix socket also carries file descriptors (`Worker.descriptors`, `inherited_descriptors`).
4. When a request exceeds its time limit, the whole process group is killed; the next request starts a fresh child.
5. Threads may share a worker: their requests wait for one another, and a request's time limit begins with its turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cutegen_core.machine import forking, priority
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.machine.forking import Forked
from cutegen_core.machine.parent import exit_when_closed
from cutegen_core.records.errors import MachineError, WorkerLimitError

Message = dict[str, Any]

_LOG_TAIL_BYTES = 4000
_LONGEST_ANSWER = 256 << 20
_DEATH_S = 10.0
"""Seconds a child may live on after it closed its pipe; then it is killed."""
_LOOK_S = 0.2
"""How often a request looks whether another thread closes its worker."""


class Worker:
    """One child process, started by the first request and restarted after it died or was killed.

    Args:
        makes_way: it computes for long, and nothing that it does is timed: the pages come first (`priority`).
        imports: its children are forks of a process that has imported these; the module has a `main`.

    Attributes:
        descriptors: the parent's end of the socket for file descriptors; None if not requested or no child runs.
    """

    def __init__(
        self, module: str, args: Sequence[str] = (), *, name: str, descriptors: bool = False, makes_way: bool = False,
        imports: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self.descriptors: socket.socket | None = None
        self._takes_descriptors = descriptors
        self._makes_way = makes_way
        self._module, self._arguments = module, tuple(args)
        self._imports = tuple(imports)
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._home: tempfile.TemporaryDirectory[str] | None = None
        self._pending = b""
        self._turn = threading.Lock()
        self._closing = False

    def begin(self) -> None:
        """Start the child unless one runs: the first request then waits less for its imports."""
        with self._turn:
            self._start_if_none(())

    def request(self, payload: Mapping[str, Any], timeout_s: float, imports: Sequence[str] = ()) -> Message:
        """Send one request and wait for its answer.

        Args:
            imports: further modules that its child should have imported, if this request starts one.

        Raises:
            WorkerLimitError: no answer within `timeout_s`; the child and its children were killed.
            MachineError: the child died without an answer, or closed its pipe and was killed; or another thread closes
                the worker.
        """
        with self._turn:
            self._start_if_none(imports)
            try:
                nonce = secrets.token_hex(16)
                self._requests.write(json.dumps({"nonce": nonce, "request": payload}).encode() + b"\n")
                self._requests.flush()
            except BrokenPipeError:
                self._fail()
            return self._read_answer(nonce, timeout_s)

    def close(self) -> None:
        """End the child and every process it started; remove its private home.

        Requests of other threads end with a MachineError. A later one starts a fresh child.
        """
        while not self._turn.acquire(timeout=_LOOK_S):
            self._closing = True  # again and again: whoever closes it, too, has set it back
        try:
            self._end()
        finally:
            self._closing = False
            self._turn.release()

    def _end(self) -> None:
        if self._process is not None:
            _kill_group(self._process)
            with contextlib.suppress(BrokenPipeError):  # the child never read the last request
                self._requests.close()
            os.close(self._answers)
            self._log.close()
            self._process = None
        if self.descriptors is not None:
            self.descriptors.close()
            self.descriptors = None
        if self._home is not None:
            self._home.cleanup()
            self._home = None

    def _start_if_none(self, imports: Sequence[str]) -> None:
        if self._process is None or self._process.poll() is not None:
            self._start(imports)

    def _start(self, imports: Sequence[str]) -> None:
        self._end()
        self._pending = b""
        self._home = tempfile.TemporaryDirectory(prefix="cutegen-")
        self._log = open(Path(self._home.name) / "log", "w+b")  # noqa: SIM115 - lives as long as the child
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        inherited = [request_read, answer_write]
        if self._takes_descriptors:
            self.descriptors, theirs = socket.socketpair()
            inherited.append(theirs.detach())
        self._process = self._launch(child_environment(Path(self._home.name)), inherited, imports)
        if self._makes_way:
            priority.make_way(self._process.pid)
        for fd in inherited:
            os.close(fd)
        self._requests = os.fdopen(request_write, "wb")
        self._answers = answer_read

    def _launch(
        self, environment: dict[str, str], inherited: Sequence[int], imports: Sequence[str]
    ) -> subprocess.Popen[bytes] | Forked:
        if self._imports:
            return forking.shared().start(
                self._module, self._arguments, environment, log=self._log.fileno(), fds=inherited,
                imports=(*self._imports, *imports),
            )  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", self._module, *self._arguments],
            env=environment | {"CUTEGEN_PIPES": ",".join(map(str, inherited))}, pass_fds=inherited,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def _read_answer(self, nonce: str, timeout_s: float) -> Message:
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not self._wait(selector, deadline):
                    self._end()
                    raise WorkerLimitError(f"{self.name} gave no answer within {timeout_s:g} s and was stopped.")
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    self._fail()
                self._pending += chunk
                if len(self._pending) > _LONGEST_ANSWER:
                    self._end()
                    raise MachineError(f"{self.name} gave an answer of more than {_LONGEST_ANSWER >> 20} MiB.")
        line, _, self._pending = self._pending.partition(b"\n")
        return self._parse(line, nonce)

    def _wait(self, selector: selectors.BaseSelector, deadline: float) -> bool:
        """Wait until something can be read; return False at the deadline."""
        while not selector.select(max(0.0, min(deadline - time.monotonic(), _LOOK_S))):
            if self._closing:
                self._end()
                raise MachineError(f"{self.name} was closed while it was asked.")
            if time.monotonic() >= deadline:
                return False
        return True

    def _parse(self, line: bytes, nonce: str) -> Message:
        """Return the answer of a line; end the child if the line is no answer to this request."""
        try:
            answer = json.loads(line)
            if answer["nonce"] == nonce and isinstance(answer["answer"], dict):
                found: Message = answer["answer"]
                return found
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        self._end()
        raise MachineError(f"{self.name} sent something that is no answer to the request, and was stopped.")

    def _fail(self) -> None:
        assert self._process is not None
        code = _wait_for_exit(self._process)
        self._log.seek(max(0, self._log.tell() - _LOG_TAIL_BYTES))
        tail = self._log.read().decode(errors="replace").strip()
        self._end()
        if code is None:
            raise MachineError(
                f"{self.name} closed its pipe, went on running and was stopped. Its last output:\n{tail or '(none)'}"
            )
        if code == -signal.SIGKILL or "MemoryError" in tail:
            raise WorkerLimitError(f"{self.name} was killed (out of memory, or stopped from outside).")
        raise MachineError(f"{self.name} died with exit code {code}. Its last output:\n{tail or '(none)'}")


def serve(handle: Callable[[Message], Message], after_answer: Callable[[], None] = lambda: None) -> None:
    """Answer requests until the parent closes the pipe (child side). `handle` turns its own errors into answers.

    If the parent ends in the middle of a request, this process ends at once.

    Args:
        after_answer: called when an answer was sent; prepares what further requests will need.
    """
    exit_when_closed(int(os.environ["CUTEGEN_PIPES"].split(",")[0]))
    request_fd, answer_fd = (int(fd) for fd in os.environ.pop("CUTEGEN_PIPES").split(",")[:2])
    for fd in (request_fd, answer_fd):
        os.set_inheritable(fd, False)
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(answer_fd, "wb") as answers:
        for line in requests:
            asked = json.loads(line)
            answer = {"nonce": asked["nonce"], "answer": handle(asked["request"])}
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()
            after_answer()


def inherited_descriptors() -> socket.socket:
    """Return the socket that carries file descriptors, if the parent asked for one (child side, before `serve`)."""
    fd = int(os.environ["CUTEGEN_PIPES"].split(",")[2])
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)


def _wait_for_exit(process: subprocess.Popen[bytes] | Forked) -> int | None:
    try:
        return process.wait(_DEATH_S)
    except subprocess.TimeoutExpired:
        return None


def _kill_group(process: subprocess.Popen[bytes] | Forked) -> None:
    if isinstance(process, Forked):
        process.kill_group()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
