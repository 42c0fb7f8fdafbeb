"""What viewers cost the engine: the time of a step with nobody looking and with ten viewers, in turns (A B B A).

A step is an edit by hand of one elementwise kernel, its source new every time, so that everything is compiled, checked
and run anew; the next edit follows at once, so the session never rests. Viewers are clients that speak Streamlit's own
protocol over real websockets: they open the session's address, rerun fragments when the server says so and receive
every message. They draw nothing: a viewer's browser runs on the viewer's machine.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import randbits
from typing import Any, TypeVar

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from cutegen_core import views
from cutegen_core.problems import library
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import AnsweredBy, SessionState, StepStarted, Tried
from cutegen_core.records.trial import ExecutorKind, Status
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store

T = TypeVar("T")
KERNEL = Path(__file__).parents[2] / "tests" / "data" / "relu.cu"
ORDER = "ABBA"
"""A: nobody looks; B: the viewers do."""
STEP_S = 120.0


class Viewer:
    """One tab without a browser; counts what it has received."""

    def __init__(self, url: str, session: str) -> None:
        self.address = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
        self.query = f"id={session}"
        self.reruns = self.polls = self.bytes = 0
        self._page = ""
        self._timers: dict[str, asyncio.Task[None]] = {}

    async def look(self) -> None:
        """Ask again and again until cancelled."""
        async with websockets.connect(self.address, subprotocols=[websockets.Subprotocol("streamlit")],
                                      max_size=None) as socket:  # fmt: skip
            await self._ask(socket)
            try:
                async for message in socket:
                    assert isinstance(message, bytes)
                    self.bytes += len(message)
                    self._take(ForwardMsg.FromString(message), socket)
            finally:
                self._forget_timers()

    def _take(self, message: ForwardMsg, socket: websockets.ClientConnection) -> None:
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._page = message.new_session.page_script_hash
            if not message.metadata.run.fragment_ids:
                self.reruns += 1
                self._forget_timers()
        elif kind == "stop_auto_rerun":
            for fragment in message.stop_auto_rerun.fragment_ids:
                self._forget_timer(fragment)
        elif kind == "auto_rerun":
            fragment = message.auto_rerun.fragment_id
            self._forget_timer(fragment)
            self._timers[fragment] = asyncio.create_task(self._poll(socket, fragment, message.auto_rerun.interval))

    async def _poll(self, socket: websockets.ClientConnection, fragment: str, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.polls += 1
            await self._ask(socket, fragment)

    async def _ask(self, socket: websockets.ClientConnection, fragment: str = "") -> None:
        asked = BackMsg()
        asked.rerun_script.query_string = self.query
        asked.rerun_script.page_script_hash = self._page
        asked.rerun_script.page_name = "" if self._page else "session"
        if fragment:
            asked.rerun_script.fragment_id, asked.rerun_script.is_auto_rerun = fragment, True
        await socket.send(asked.SerializeToString())

    def _forget_timer(self, fragment: str) -> None:
        if timer := self._timers.pop(fragment, None):
            timer.cancel()

    def _forget_timers(self) -> None:
        for fragment in list(self._timers):
            self._forget_timer(fragment)


@contextmanager
def looking(url: str, session: str, count: int) -> Iterator[list[Viewer]]:
    """Open that many viewers, until the context is left; each has received the session before it is entered."""
    viewers = [Viewer(url, session) for _ in range(count)]
    loop, leave = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(_look(viewers, leave),), name="viewers")
    thread.start()
    try:
        _until(lambda: all(viewer.polls for viewer in viewers) or not thread.is_alive())
        yield viewers
        if not thread.is_alive():
            raise SystemExit("a viewer fell out; its error stands above")
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()


async def _look(viewers: Sequence[Viewer], leave: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(viewer.look()) for viewer in viewers]
        await leave.wait()
        for task in tasks:
            task.cancel()


def viewers(url: str, store: Store, count: int, rounds: int, steps: int) -> dict[str, Any]:
    """Take `rounds` times A B B A with `steps` steps in each turn."""
    problem = library.load("relu")
    session = start.create(store, problem, answered_by=AnsweredBy.PERSON, executor=ExecutorKind.CPU, max_steps=1000)
    step(store, session)  # what is only done once is not measured
    times: dict[str, list[float]] = {"A": [], "B": []}
    polls = reruns = received = 0
    for turn in ORDER * rounds:
        if turn == "A":
            times[turn] += [step(store, session) for _ in range(steps)]
            continue
        with looking(url, session, count) as seen:
            times[turn] += [step(store, session) for _ in range(steps)]
        polls += sum(viewer.polls for viewer in seen)
        reruns += sum(viewer.reruns for viewer in seen)
        received += sum(viewer.bytes for viewer in seen)
    alone, watched = (statistics.median(times[turn]) for turn in "AB")
    per_step = count * len(times["B"])
    return {
        "viewers": count, "order": ORDER * rounds, "steps_per_turn": steps,
        "step_s_without": round(alone, 3), "step_s_with": round(watched, 3), "longer_by": round(watched / alone - 1, 3),
        "all_without": [round(t, 2) for t in times["A"]], "all_with": [round(t, 2) for t in times["B"]],
        "per_viewer_and_step": {"pages_drawn": round(reruns / per_step, 1), "polls": round(polls / per_step, 1),
                                "kilobytes": round(received / per_step / 1000, 1)},
    }  # fmt: skip


def step(store: Store, session: str) -> float:
    """Return seconds of one step, from the engine's own events."""
    _until(lambda: views.session_view(store, session).state.status is SessionState.AWAITING_REVIEW)
    source = f"{KERNEL.read_text()}\n// {randbits(62)}\n__device__ int edit_{randbits(30)};\n"
    state = views.session_view(store, session).state
    decision = Decision(DecisionKind.EDIT, state.meaning_seq, source=source)
    start.submit(store, session, decision)
    tried = _until(lambda: [r for r in store.events(session, state.seq) if isinstance(r.event, Tried)])[0]
    begun = [r for r in store.events(session, state.seq) if isinstance(r.event, StepStarted) and r.seq < tried.seq]
    assert isinstance(tried.event, Tried)
    if tried.event.status is not Status.PASSED:
        raise SystemExit(f"the edited kernel did not pass: {tried.event}")
    return tried.at - begun[-1].at


def _until(found: Callable[[], T]) -> T:
    deadline = time.monotonic() + STEP_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise SystemExit("the engine did not answer")
        time.sleep(0.02)
    return value
