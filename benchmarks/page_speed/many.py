"""A workspace of many sessions, one of them very long: the start page of a cold server, the list of the command line,
and whether folding events takes time in proportion to their number.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets import Subprotocol
from websockets.sync.client import connect

from benchmarks.page_speed import watch, windows
from benchmarks.page_speed.changes import USEFUL
from cutegen_core.records.event import Recorded, SessionState, StateChanged
from cutegen_core.trajectory.store import Store
from cutegen_core.trajectory.transitions import fold
from tests.pages.gpu_stories import gpu_story, long_gpu_story
from tests.pages.stories import softmax_story
from tests.serving import Server, served

ENDED = StateChanged(SessionState.STOPPED, "written to be looked at")
_TICKS = os.sysconf("SC_CLK_TCK")


def fill(store: Store, sessions: int, steps: int) -> str:
    """Write that many sessions, the last of them with `steps` steps; return its id. All are stopped."""
    stories = [story(store).add(ENDED).session for story in (softmax_story, gpu_story)]
    events = [store.events(session) for session in stories]
    for number in range(sessions - len(stories) - 1):
        store.adopt(events[number % len(events)])
    return long_gpu_story(store, steps).add(ENDED).session


def many_sessions(home: Path, started: Browser, store: Store, long: str, visits: int) -> dict[str, Any]:
    """Time pages over many sessions; `long` is the id of the longest."""
    listed, listing = [], []
    for _ in range(visits):
        before = _cpu_of_children()
        listed.append(_took_ms(lambda: _list_sessions(home)))
        listing.append(1000 * (_cpu_of_children() - before))
    drawn, cpu, fresh = [], [], []
    for _ in range(visits):
        with served(home) as server:
            before = _cpu_s(server)
            drawn.append(_took_ms(lambda url=server.url: _draw(url)))  # type: ignore[misc]
            cpu.append(1000 * (_cpu_s(server) - before))
        with served(home) as server, windows.tabs(started) as [page]:
            fresh.append(watch.opened(page, server.url, USEFUL["Start"][1]))
    return {
        "sessions": len(store.sessions()),
        "start_page_script_of_a_cold_server": watch.spread(drawn),
        "its_processor_time": watch.spread(cpu),
        "start_page_in_a_fresh_browser": watch.spread(fresh),
        "cutegen_sessions": watch.spread(listed),
        "cutegen_sessions_processor_time": watch.spread(listing),
        "fold": _folding(store.events(long)),
    }


def _list_sessions(home: Path) -> None:
    command = [sys.executable, "-m", "cutegen_core.cli", "sessions"]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"CUTEGEN_HOME": str(home)})


def _draw(url: str) -> None:
    """Ask for the start page as a browser does, and receive everything until its script has ended."""
    address = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
    with connect(address, subprotocols=[Subprotocol("streamlit")], max_size=None) as socket:
        asked = BackMsg()
        asked.rerun_script.query_string = ""
        socket.send(asked.SerializeToString())
        for message in socket:
            assert isinstance(message, bytes)
            if ForwardMsg.FromString(message).WhichOneof("type") == "script_finished":
                return


def _cpu_s(server: Server) -> float:
    """Processor time of the server's process so far."""
    assert server.process is not None
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _folding(events: Sequence[Recorded]) -> dict[str, Any]:
    """Return microseconds of processor time per event for a quarter, a half and all of the events: equal if linear."""
    found = {}
    for part in (4, 2, 1):
        some = events[: len(events) // part]
        took = statistics.median(_cpu_of(lambda some=some: fold(some)) for _ in range(3))  # type: ignore[misc]
        found[f"{len(some)} events"] = {"ms": round(took), "us_per_event": round(1000 * took / len(some), 1)}
    return found


def _cpu_of(act: Callable[[], object]) -> float:
    """Return milliseconds of processor time that it takes in this process."""
    begun = time.process_time()
    act()
    return 1000 * (time.process_time() - begun)


def _took_ms(act: Callable[[], object]) -> float:
    """Return how many seconds it takes."""
    begun = time.monotonic()
    act()
    return 1000 * (time.monotonic() - begun)
