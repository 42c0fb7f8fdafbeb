"""kill -9 at every commit of a session that asks a model, sweeps parameters and tries hunks apart.

A real server plays the model and keeps count: a call that was answered is never made again, and one whose answer was
lost only after a person has resumed the session. A sweep or an ablation that is recorded is not made again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.propose.cutegen.strategy import CutegenStrategy
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Autonomy, DecisionKind, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    ModelAnswered,
    ModelCalled,
    Recorded,
    Role,
    SessionState,
    StateChanged,
    Studied,
)
from cutegen_core.session.proposing import LOST_CALL
from cutegen_core.trajectory.state import State
from tests.later import Later
from tests.model_server import Answer, ModelServer, reply
from tests.model_server import Recorded as Request
from tests.places import DATA
from tests.session.mortal import Diary, dies, make_mortal
from tests.session.scripted import ScriptedSessions, scripted

answers = Later("cutegen_core.propose.llm.answers")

RELU = (DATA / "relu.cu").read_text()
BROKEN = RELU + "// status INCORRECT_NUMERICAL\n"
CAUSE = "Cause: nobody said what it is\nEvidence: as scripted\nFix: leave the last line out"
CALLS = 4
"""The seed, a diagnosis, its repair, and that nothing is left, which holds after the sweep, too."""


def play(request: Request) -> Answer:
    """Answer as a model that reads its prompt: the same prompt gets the same answer."""
    if "## This step: a repair" in request.question:
        return reply(f"Idea: seed\n```cpp\n{RELU}```\n", size=500)
    if "## This step: a diagnosis" in request.question:
        return reply(CAUSE, size=500)
    if "isnan(in(i))" in request.prompt:
        return reply("DONE: nothing left", size=500)
    return reply(f"Idea: seed\n```cpp\n{BROKEN}```\n", size=500)


class ModelSessions(ScriptedSessions):
    """Sessions whose trials are scripted; strategy, client of the model and studies are the real ones."""

    def proposer(self, state: State) -> CutegenStrategy:  # type: ignore[override]
        return CutegenStrategy()

    def model(self, state: State, role: Role | None = None) -> object:  # type: ignore[override]
        return answers.ChatAnswers((Role.PROPOSER, Role.DIAGNOSIS, Role.REPAIR))


def drive(desk: ScriptedSessions, diary: Diary) -> State:
    """Do what a person does: resume what was interrupted, and look at the accepted change hunk by hunk."""
    known = desk.store.sessions()
    session = known[0] if known else desk.start(answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
    while True:
        state = desk.go(session)
        diary.note(told=[state.seq, state.status])
        if state.status is SessionState.INTERRUPTED:
            desk.decide(session, DecisionKind.RESUME)
        elif state.status is not SessionState.ACCEPTED or has_ablation(desk, session):
            return state
        else:
            desk.decide(session, DecisionKind.STUDY, study=StudyKind.ABLATION, candidate=state.best)


def has_ablation(desk: ScriptedSessions, session: str) -> bool:
    asked = [r.event for r in desk.store.events(session) if isinstance(r.event, Decided)]
    return any(e.decision.study is StudyKind.ABLATION for e in asked)


def begin(folder: Path) -> ScriptedSessions:
    return ModelSessions(folder, ())


def events_of(folder: Path) -> list[Recorded]:
    with scripted(folder) as desk:
        return [r for session in desk.store.sessions() for r in desk.store.events(session)]


def of_kind(events: list[Recorded], kind: type) -> list:  # type: ignore[type-arg]
    return [r.event for r in events if isinstance(r.event, kind)]


def finish(folder: Path, diary: Diary) -> tuple[State, list[str]]:
    """Drive to the end in this process; return the state and the sources that were tried."""
    desk = begin(folder)
    try:
        return drive(desk, diary), desk.made.tried
    finally:
        desk.store.close()


def check_bill(before: list[Recorded], after: list[Recorded], sent: int, sent_before: int) -> None:
    """Hold the server's count against the record."""
    answers = of_kind(after, ModelAnswered)
    lost = [a for a in answers if a.error == LOST_CALL]
    assert len(answers) - len(lost) == CALLS
    assert len(answers) == len(of_kind(after, ModelCalled)), "every call has its answer, or is said to be lost"
    assert len(lost) <= 1, "one kill loses one call at most"
    assert sent <= CALLS + len(lost), "nothing is paid twice but what was lost"
    resumed = [e for e in of_kind(after, Decided) if e.decision.kind is DecisionKind.RESUME]
    assert len(resumed) == len(lost) == len([e for e in of_kind(after, StateChanged) if e.reason == LOST_CALL])
    kept = [a for a in of_kind(before, ModelAnswered) if not a.error]
    assert sent - sent_before == CALLS - len(kept), "an answer that was recorded is not asked for again"


@pytest.mark.thorough
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after it"])
@pytest.mark.parametrize("stride", [31, 1])
def test_calls_sweeps_and_ablations_killed_at_any_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int, before: bool
) -> None:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    with ModelServer(play) as server:
        model_settings.write(Models((ModelSettings("played", server.base_url, "test-model"),)))
        whole, tried = finish(tmp_path, Diary(tmp_path / "diary"))
        assert (whole.status, len(server.asked)) == (SessionState.ACCEPTED, CALLS)
        assert {e.study for e in of_kind(events_of(tmp_path), Studied)} == {StudyKind.SWEEP, StudyKind.ABLATION}
        boundary, killed_in_a_call = 1, 0
        while True:
            folder = tmp_path / f"killed-{boundary}"
            folder.mkdir()
            diary, sent = Diary(folder / "diary"), len(server.asked)

            def to_the_end(folder: Path = folder, boundary: int = boundary, diary: Diary = diary) -> None:
                desk = begin(folder)
                make_mortal(desk.store, boundary, before=before)
                drive(desk, diary)

            if not dies(to_the_end):
                break
            kept, sent_then = events_of(folder), len(server.asked)
            told = diary.facts("told")
            assert not told or len(kept) >= told[-1][0], "what was shown is still there"  # type: ignore[index]
            state, again = finish(folder, diary)
            after = events_of(folder)
            assert after[: len(kept)] == kept, "nothing acknowledged is lost or changed"
            check_bill(kept, after, len(server.asked) - sent, sent_then - sent)
            assert story(state) == story(whole)
            studies = {e.study for e in of_kind(kept, Studied)}
            assert not studies & {e.study for e in of_kind(after[len(kept) :], Studied)}, "a study is made once"
            assert len(again) <= len(tried)
            killed_in_a_call += any(a.error == LOST_CALL for a in of_kind(after, ModelAnswered))
            boundary += stride
    assert boundary > 60, "every transaction of the session was one"
    assert killed_in_a_call or stride > 1


def story(state: State) -> list[object]:
    return [(step.candidate, step.outcome) for step in state.steps]
