"""kill -9 at every boundary of the journal: before and after each commit, in a process of its own.

What a person was told is still there afterwards, no trial that was recorded is run again, no decision counts twice, and
the session ends as one that was never killed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.records.candidate import Candidate
from cutegen_core.records.decision import DecisionKind, Gate
from cutegen_core.records.event import SessionState, Tried
from cutegen_core.records.trial import Trial
from cutegen_core.share.exports import export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from tests.session.mortal import Diary, dies, make_mortal
from tests.session.scripted import ScriptedSessions, scripted

SOURCES = ("// naive\n", "// broken\n// status COMPILE_ERROR\n", "// better\n")
EDITED = "// by hand\n"
GATES = (Gate.PLAN, Gate.DIFF, Gate.PROMOTION)


def drive(desk: ScriptedSessions, diary: Diary) -> State:
    """Do what a person does who looks at the session: go on from whatever state it is in, to the end."""
    known = desk.store.sessions()
    session = known[0] if known else desk.start(gates=GATES)
    evaluate = desk.made.evaluate

    def tell(candidate: Candidate, **more: object) -> Trial:
        diary.note(trial=[candidate.key, bool(more.get("thorough"))])
        return evaluate(candidate, **more)  # type: ignore[arg-type]

    desk.made.evaluate = tell  # type: ignore[method-assign,assignment]
    state = desk.go(session)
    while state.status is SessionState.AWAITING_REVIEW:
        diary.note(told=[state.seq, state.status, len(state.steps)])
        assert state.gate is not None
        edited = any(desk.store.text(s.candidate) == EDITED for s in state.steps if s.candidate)
        if state.gate.gate is Gate.INSTRUCTION:
            state = desk.decide(session, DecisionKind.ACCEPT, candidate=state.best)
        elif state.gate.gate is Gate.DIFF and len(state.steps) == 1 and not edited:
            state = desk.decide(session, DecisionKind.EDIT, source=EDITED, text="by hand")
        else:
            state = desk.approve(session)
    diary.note(told=[state.seq, state.status, len(state.steps)])
    return state


def die(folder: Path, diary: Diary, at: int, *, before: bool) -> bool:
    """Drive a session in a process that is killed at this boundary; False if it came to its end."""

    def to_the_end() -> None:
        with scripted(folder, *SOURCES) as desk:
            make_mortal(desk.store, at, before=before)
            drive(desk, diary)

    return dies(to_the_end)


def story(desk: ScriptedSessions, state: State) -> list[tuple[str, object]]:
    return [(desk.store.text(s.candidate) if s.candidate else "", s.outcome) for s in state.steps]


def check_end(folder: Path, diary: Diary, whole: list[tuple[str, object]]) -> None:
    with scripted(folder, *SOURCES) as desk:
        told = diary.facts("told")
        before = [recorded for session in desk.store.sessions() for recorded in desk.store.events(session)]
        assert not told or len(before) >= told[-1][0], "what was shown is still there"  # type: ignore[index]
        paid = {r.event.candidate for r in before if isinstance(r.event, Tried)}
        spent = len(diary.facts("trial"))
        state = drive(desk, diary)
        assert state.status is SessionState.ACCEPTED
        assert story(desk, state) == whole
        after = desk.store.events(desk.store.sessions()[0])
        assert after[: len(before)] == before, "nothing acknowledged is lost or changed"
        assert not paid & {key for key, thorough in diary.facts("trial")[spent:] if not thorough}  # type: ignore[misc]
        assert desk.store.waiting() == []
        assert len(desk.store.sessions()) == 1


@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
@pytest.mark.parametrize("stride", [19, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_session_killed_at_any_commit_ends_as_one_that_was_not(tmp_path: Path, stride: int, before: bool) -> None:
    with scripted(tmp_path, *SOURCES) as desk:
        whole = story(desk, drive(desk, Diary(tmp_path / "diary")))
    assert [text for text, _ in whole] == [SOURCES[0], EDITED, *SOURCES[1:], ""]
    boundary = 1
    while True:
        folder = tmp_path / f"killed-{boundary}"
        folder.mkdir()
        diary = Diary(folder / "diary")
        if not die(folder, diary, boundary, before=before):
            break
        check_end(folder, diary, whole)
        boundary += stride
    assert boundary > 40, "every transaction of the session was one"


@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
def test_an_import_killed_at_any_commit_is_whole_or_not_there(tmp_path: Path, before: bool) -> None:
    with scripted(tmp_path, *SOURCES) as desk:
        drive(desk, Diary(tmp_path / "diary"))
        exported = export(desk.store, desk.store.sessions()[0], "jsonl", tmp_path / "a.jsonl")
        events = len(desk.store.events(desk.store.sessions()[0]))
    for boundary in range(1, 999):
        path = tmp_path / f"store-{boundary}.db"

        def take_in(path: Path = path, boundary: int = boundary) -> None:
            store = Store(path)
            make_mortal(store, boundary, before=before)
            import_path(store, exported.path)

        killed = dies(take_in)
        store = Store(path)
        assert [len(store.events(session)) for session in store.sessions()] in ([], [events])
        again = import_path(store, exported.path)
        assert len(store.events(again.session)) == events
        store.close()
        if not killed:
            break
    assert boundary > 5
