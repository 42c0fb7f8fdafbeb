"""Check single kernel files for the command line, which comes through a socket in the workspace.

The workers of this engine are warm: what the command would wait for is there. One request comes on a connection, as a
line of JSON; lines of JSON go back as the trial goes on: {"line": ...} for each stage, then {"print": ..., "passed":
...} or {"error": ...}. Checks wait for one another, and for their turn among the trials of sessions.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import sqlite3
import struct
import threading
from functools import partial

from cutegen_core import checking
from cutegen_core.engine import asking
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.records.check import CheckRequest
from cutegen_core.records.errors import CutegenError, StoppedError
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import StageResult
from cutegen_core.wiring import Tools

_log = logging.getLogger(__name__)
_PEER = struct.Struct("3i")


class Checks:
    """Serves the workspace's socket from a thread of its own.

    Attributes:
        busy: whether a check runs or waits.
    """

    def __init__(self, tools: Tools) -> None:
        self.busy = False
        self._tools = tools
        self._lock = threading.Lock()
        self._closed = False
        self._socket: socket.socket | None = None

    def open(self) -> None:
        """Listen from now on; only the engine that holds the lock may do this."""
        judged_by = asking.conditions()  # now: it says what code this process has loaded
        with self._lock:
            if self._closed:
                return
            self._socket = asking.bind()
        threading.Thread(target=self._serve, args=(self._socket, judged_by), daemon=True, name="checks").start()

    def close(self) -> None:
        """Answer nobody any more."""
        with self._lock:
            self._closed = True
            if self._socket is not None:
                asking.unbind()
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
                self._socket.close()

    def _serve(self, listening: socket.socket, judged_by: str) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # closed
                return
            self.busy = True
            try:
                with connection:
                    self._answer(connection, judged_by)
            except Exception:  # noqa: BLE001 - thread boundary: the next one may fare better
                _log.exception("a check")
            finally:
                self.busy = False

    def _answer(self, connection: socket.socket, judged_by: str) -> None:
        """Check what one client brings; whoever cannot be served checks it without the engine."""
        uid = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
        if uid != os.getuid():
            return
        with connection.makefile("rw", encoding="utf-8") as stream:
            if json.loads(stream.readline() or "null") != judged_by:
                return
            request = CheckRequest.from_json(stream.readline())
            client, owner = _Asker(connection), f"checks for {request.problem} in {request.folder}"
            try:
                with self._tools.at_work(owner):
                    trial = checking.check(request, partial(self._evaluator_of, request, owner), client)
                client.tell({"print": checking.to_print(trial, request), "passed": trial.passed})
            except StoppedError:
                return
            except (CutegenError, sqlite3.Error, OSError) as error:
                client.tell({"error": str(error)})

    def _evaluator_of(self, request: CheckRequest, owner: str, problem: Problem) -> Evaluator:
        return self._tools.evaluator_of(owner, problem, checking.executor_of(request), request.arch or None)


class _Asker(SilentWatch):
    """Whoever waits for the verdict; gone, the trial is abandoned."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ended(self, result: StageResult) -> None:
        self.tell({"line": checking.stage_line(result)})

    def stopped(self) -> bool:
        gone = select.poll()  # threads of one trial ask side by side, and none may share this object
        gone.register(self._connection, select.POLLRDHUP)
        return bool(gone.poll(0))

    def tell(self, message: dict[str, object]) -> None:
        """Send a message to the command; StoppedError where it has ended."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError:
            raise StoppedError("the command was ended") from None
