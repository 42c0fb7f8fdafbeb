"""Records the session that ships in assets/recordings: `python -m benchmarks.recording.session`, on the emulator.

1. The playbook proposes a softmax, plain and then better; a script stands in for the person at every gate.
2. The person edits the kernel by hand and gets it wrong; the test says where.
3. The person redirects in words, looks at the diff, and accepts what passes.
Everything else is real: every kernel is compiled and run, and the decisions go through the store like a page's.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from cutegen_core.problems import library
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import AnsweredBy, SessionCreated
from cutegen_core.session import start
from cutegen_core.session.loop import Session
from cutegen_core.share.exports import export
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

OUTPUT = Path(__file__).parents[2] / "assets" / "recordings" / "softmax-emulator.jsonl.gz"
BUG = ("lane < BLOCK / 32 ? partial[lane] : identity", "partial[lane]")
"""The guard that looks superfluous: lanes beyond the warps read what nobody wrote."""
REDIRECT = "use 128 threads"


def record(folder: Path, output: Path) -> State:
    """Record into a store of its own under `folder` and write the recording to `output`."""
    store = Store(folder / "store.db")
    tools = Tools(store)
    try:
        session = _create(store)
        state = _play(store, tools, session)
        output.parent.mkdir(parents=True, exist_ok=True)
        export(store, session, "jsonl", output)
        return state
    finally:
        tools.close()
        store.close()


def _create(store: Store) -> str:
    """Create a session that says in its settings where it was recorded."""
    draft = start.create(store, library.load("softmax"), answered_by=AnsweredBy.PLAYBOOK)
    created = store.events(draft)[0].event
    assert isinstance(created, SessionCreated)
    settings = replace(
        created.settings,
        title="Softmax, recorded on the CPU emulator",
        device_name=f"{created.settings.device_name}, emulated on a CPU: nothing is timed",
    )
    return store.create_session(SessionCreated(settings))


def _play(store: Store, tools: Tools, session: str) -> State:
    person = Person(store, tools, session)
    state = person.looks()
    for _ in range(2):
        person.approves()
        state = person.approves()
    state = person.approves()
    assert state.step is not None and state.step.candidate is not None  # noqa: PT018
    right = store.text(state.step.candidate)
    assert BUG[0] in right, "the playbook's kernel has changed: choose another bug"
    wrong = right.replace(*BUG, 1)
    state = person.decides(DecisionKind.EDIT, source=wrong, candidate=state.step.candidate)
    state = person.decides(DecisionKind.REDIRECT, text=REDIRECT)
    state = person.approves()
    assert state.step is not None
    return person.decides(DecisionKind.ACCEPT, candidate=state.step.candidate)


class Person:
    """Decides on what is shown, through the store's inbox."""

    def __init__(self, store: Store, tools: Tools, session: str) -> None:
        self._store, self._tools, self._session = store, tools, session

    def looks(self) -> State:
        """Return the state when the session waits."""
        return Session(self._store, self._session, self._tools.of_session(self._session)).run()

    def approves(self) -> State:
        gate = self.looks().gate
        assert gate is not None
        return self.decides(DecisionKind.APPROVE, gate=gate.gate, candidate=gate.candidate)

    def decides(self, kind: DecisionKind, **fields: object) -> State:
        seen = self.looks().seq
        ticket = self._store.submit(self._session, Decision(kind, seen, **fields))  # type: ignore[arg-type]
        state = self.looks()
        refusal = self._store.ticket(ticket).refusal
        if refusal:
            raise SystemExit(f"{kind} was refused: {refusal}")
        return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    output = parser.parse_args().output
    with tempfile.TemporaryDirectory(prefix="cutegen-record-") as folder:
        state = record(Path(folder), output)
    for step in state.steps:
        print(f"step {step.number}: {step.idea}: {step.status} {step.outcome}")
    print(f"{state.status}: {output} ({output.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
