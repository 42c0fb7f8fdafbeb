"""Keep one engine per workspace by a file lock, start it for a client, and keep it running while there are clients."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cutegen_core.machine import parent, workspace
from cutegen_core.records.errors import CutegenError

CLIENT_GONE_S = 60.0
_started: dict[Path, subprocess.Popen[bytes]] = {}
"""The engine that this process started last in a workspace: it may not have come to its lock yet."""

_log = logging.getLogger(__name__)


def is_running() -> bool:
    """Return whether an engine holds the workspace's lock."""
    with lock_file() as handle:
        return not try_lock(handle)


def touch_client() -> None:
    """Tell the engine that a client is there; call it every few seconds."""
    os.utime(workspace.make_private(_client_file()))


def ensure_running() -> None:
    """Start an engine if none runs. It outlives the caller."""
    touch_client()
    home = workspace.home()
    if is_running() or (home in _started and _started[home].poll() is None):
        return
    log = workspace.make_private(home / "engine.log")
    with log.open("ab") as output:
        _started[home] = subprocess.Popen(
            [sys.executable, "-m", "cutegen_core.engine"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    parent.reap(_started[home])


def keep_running(stop: threading.Event, every_s: float = 2.0) -> None:
    """Keep an engine alive until `stop` is set: start a killed one again. Run it in a thread.

    A disk that is full, fails or cannot be written is logged once, and tried again.
    """
    trouble = ""
    while not stop.is_set():
        try:
            ensure_running()
            trouble = ""
        except (OSError, CutegenError) as error:
            if str(error) != trouble:
                _log.error("the engine cannot be looked after: %s; trying again", error)
            trouble = str(error)
        stop.wait(every_s)


@contextlib.contextmanager
def kept_running() -> Iterator[None]:
    """Keep an engine alive meanwhile, by a thread (`keep_running`)."""
    stop = threading.Event()
    threading.Thread(target=keep_running, args=(stop,), daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def is_in_place(lock: IO[str]) -> bool:
    """Return whether the lock's file is still the workspace's: after a deletion another engine can lock a new one."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (workspace.home() / "engine.lock").stat())
    except FileNotFoundError:
        return False


def client_age_s() -> float:
    try:
        return time.time() - _client_file().stat().st_mtime
    except FileNotFoundError:
        return CLIENT_GONE_S
    except (OSError, CutegenError):  # the disk fails: that says nothing about clients
        return 0.0


def _client_file() -> Path:
    return workspace.home() / "client"


@contextlib.contextmanager
def lock_file() -> Iterator[IO[str]]:
    with workspace.make_private(workspace.home() / "engine.lock").open("a+") as handle:
        yield handle


def try_lock(handle: IO[str], patience_s: float = 0.0) -> bool:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True
