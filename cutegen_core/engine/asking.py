"""Ask the engine for a check, if one runs that would judge as this process does.

Everything here is light: a command that only asks imports neither compilers nor the judge.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple, TextIO

from cutegen_core.engine import single
from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.machine import workspace
from cutegen_core.records.check import CheckRequest
from cutegen_core.records.errors import CutegenError

_NAME = "engine.sock"
_WAITING = 8
_DECIDING = ("CUTEGEN_HOST_CXX", "CUTEGEN_SANDBOX_MAX")
"""Variables of the environment that a verdict depends on."""


class CheckAnswer(NamedTuple):
    """What to print, and whether the kernel passed."""

    text: str
    passed: bool


class CheckError(CutegenError):
    """There is no verdict; the text is that of the engine's error."""


def conditions() -> str:
    """Return what a verdict rests on beside the request: the judge's code, versions, and the environment."""
    return json.dumps([judge_digest(), sys.prefix, *(os.environ.get(name, "") for name in _DECIDING)])


def ask(request: CheckRequest, say: Callable[[str], None]) -> CheckAnswer | None:
    """Return the engine's answer; None if no engine runs, or none that judges as this process does.

    Args:
        say: called with a line about each stage that has ended.

    Raises:
        CheckError: the engine could not judge the kernel.
    """
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        try:
            with _address() as address:
                connection.connect(address)
            connection.sendall(f"{json.dumps(conditions())}\n{request.to_json()}\n".encode())
            single.touch_client()
            with connection.makefile(encoding="utf-8") as answers:
                return _read(answers, say)
        except OSError:
            return None


def bind() -> socket.socket:
    """Return the socket at which the engine is asked."""
    unbind()  # of a killed engine
    listening = socket.socket(socket.AF_UNIX)
    with _address() as address:
        listening.bind(address)
    listening.listen(_WAITING)
    return listening


def unbind() -> None:
    """Take the socket out of the workspace; only the engine that holds the lock may do this."""
    with suppress(OSError):
        (workspace.home() / _NAME).unlink()


def _read(answers: TextIO, say: Callable[[str], None]) -> CheckAnswer | None:
    for line in answers:
        said = json.loads(line)
        if "error" in said:
            raise CheckError(said["error"])
        if "print" in said:
            return CheckAnswer(said["print"], said["passed"])
        if said["line"]:
            say(said["line"])
    return None


@contextmanager
def _address() -> Iterator[str]:
    """Give the socket's path in a form that fits: the kernel takes 107 letters, a workspace may have more."""
    folder = os.open(workspace.home(), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{_NAME}"
    finally:
        os.close(folder)
