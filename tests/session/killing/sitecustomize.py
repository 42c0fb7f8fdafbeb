"""Kill a process of the workbench at a commit: Python runs this at its start where the folder is on PYTHONPATH.

`CUTEGEN_KILLED` says which process, on which side of the commit, and which of its commits: "engine before 2". Events,
new sessions, decisions and their refusals count; lines that are only shown do not. What was durable when the process
died stands in the file `deaths` of the workspace.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_JOURNAL = ("append", "create_session", "adopt", "submit", "refuse")
_PROCESSES = {"engine": "cutegen_core.engine", "cli": "cutegen_core.cli", "page": "streamlit"}


def _arm(side: str, at: int) -> None:
    from cutegen_core.trajectory.store import Store

    counting, local, commit = iter(range(1, 1 << 30)), threading.local(), Store._transaction

    @contextmanager
    def transaction(store: Store) -> Iterator[None]:
        mine = next(counting) if getattr(local, "counts", False) else 0
        with commit(store):
            yield
            if mine == at and side == "before":
                _die(store, side, at)
        if mine == at:
            _die(store, side, at)

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            local.counts = True
            try:
                return method(*arguments, **options)
            finally:
                local.counts = False

        return call

    Store._transaction = transaction  # type: ignore[method-assign]
    for name in _JOURNAL:
        setattr(Store, name, counted(getattr(Store, name)))


def _die(store: Any, side: str, at: int) -> None:
    """Note what another process sees of the store now, and end without a warning."""
    seen = type(store)(store.path)
    events = {session: len(seen.events(session)) for session in seen.sessions()}
    with (store.path.parent / "deaths").open("a") as file:
        file.write(json.dumps({"side": side, "at": at, "events": events}) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


_wanted = os.environ.get("CUTEGEN_KILLED", "").split()
if _wanted and any(_PROCESSES[_wanted[0]] in word for word in sys.orig_argv):
    _arm(_wanted[1], int(_wanted[2]))
