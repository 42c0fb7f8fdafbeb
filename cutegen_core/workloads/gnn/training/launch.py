"""Start a run's ranks as children, pass on what they write, and end them all when one ends badly."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from cutegen_core.workloads.gnn.stopping import StopRequest

MODULE = "cutegen_core.workloads.gnn"
RENDEZVOUS, PARENT = "CUTEGEN_GNN_RENDEZVOUS", "CUTEGEN_GNN_PARENT"
"""Set for the ranks: where they meet, and a descriptor that closes when the run ends."""


class _Ended(NamedTuple):
    rank: int
    code: int
    error: str


def run_ranks(settings_file: str, count: int, out: TextIO, stop: StopRequest) -> int:
    """Run one process per rank until all have ended; return the run's exit code."""
    ended: queue.Queue[_Ended] = queue.Queue()
    with tempfile.TemporaryDirectory(prefix="cutegen-ranks-") as folder, _pipe() as closes_with_us:
        children = [
            _start(rank, count, settings_file, f"file://{folder}/meet", closes_with_us) for rank in range(count)
        ]
        stop.on_stop(lambda: _signal(children, signal.SIGTERM))
        for rank, child in enumerate(children):
            threading.Thread(target=_follow, args=(rank, child, out, ended), daemon=True).start()
        failure = _wait(ended, count, children)
    if stop.asked:
        return stop.exit_code
    if failure is None:
        return 0
    out.write(json.dumps({"error": _explain(failure)}) + "\n")
    out.flush()
    return 1


def _wait(ended: queue.Queue[_Ended], count: int, children: list[subprocess.Popen[str]]) -> _Ended | None:
    """Return the first rank that ended badly, after all have ended."""
    failure: _Ended | None = None
    for _ in range(count):
        one = ended.get()
        if one.code and failure is None:
            failure = one
            if one.code < 128:  # otherwise it was asked to end, and so were the others
                _signal(children, signal.SIGKILL)
    return failure


def _explain(failure: _Ended) -> str:
    if failure.error:
        return failure.error
    how = f"by signal {-failure.code}" if failure.code < 0 else f"with exit code {failure.code}"
    return f"rank {failure.rank} ended {how}; the other ranks were ended, too. The log has what it wrote."


@contextlib.contextmanager
def _pipe() -> Iterator[int]:
    """Give the end that ranks inherit; the other one closes with this process."""
    theirs, ours = os.pipe()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


def _start(rank: int, count: int, settings_file: str, meet: str, parent: int) -> subprocess.Popen[str]:
    environment = os.environ | {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
        RENDEZVOUS: meet, PARENT: str(parent),
    }  # fmt: skip
    environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, "--settings", settings_file], env=environment, pass_fds=[parent],
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _follow(rank: int, child: subprocess.Popen[str], out: TextIO, ended: queue.Queue[_Ended]) -> None:
    """Pass on a rank's lines but for errors, of which the run tells the first."""
    assert child.stdout is not None
    error = ""
    for line in child.stdout:
        if line.startswith('{"error"'):
            error = json.loads(line)["error"]
        else:
            out.write(line)
            out.flush()
    ended.put(_Ended(rank, child.wait(), error))


def _signal(children: list[subprocess.Popen[str]], number: signal.Signals) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)
