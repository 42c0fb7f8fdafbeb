"""A recorded session walked again: the same prompts, replies and kernels, everything else really run."""

import gzip
import json
import re
from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, DecisionKind, Effort
from cutegen_core.records.event import AnsweredBy, ModelAnswered, Outcome, SessionState
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Status
from cutegen_core.share.exports import export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.store import Store
from tests.few_runs import few_runs
from tests.model_server import ModelServer, reply
from tests.places import ROOT
from tests.session.real_sessions import loop

RELU = (ROOT / "tests" / "data" / "relu.cu").read_text()
INCLUDE, USING = "#include <cute/tensor.hpp>\n", "using namespace cute;\n"
SHIPPED = ROOT / "assets" / "recordings" / "softmax-emulator.jsonl.gz"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with loop(tmp_path_factory.mktemp("replay")) as made:
        yield made


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Another workspace, which has seen nothing."""
    with loop(tmp_path_factory.mktemp("elsewhere")) as made:
        yield made


def whole(idea, source):
    return f"Idea: {idea}\n```cpp\n{source}```\n"


def block(search, replacement):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replacement}\n>>>>>>> REPLACE\n"


def walked_again(desk, recorded):
    """The recording replayed to its end, as `cutegen replay` starts it."""
    settings = views.session_view(desk.store, recorded).state.settings
    problem = desk.store.record(Problem, settings.problem)
    session = desk.start(
        problem, answered_by=AnsweredBy.RECORDING, autonomy=Autonomy.AUTO, max_steps=1000, recording=recorded
    )
    return session, desk.go(session)


def story(state):
    return [(s.candidate, s.author, s.idea, s.status) for s in state.steps if s.candidate]


@pytest.fixture(scope="module")
def told(desk):
    """A session with a model that fails in several ways, and a call that failed and was asked again."""
    script = (
        whole("seed: plain", RELU.replace("using namespace cute;", "")),
        f"Idea: open the namespace\n{block('nowhere', 'else')}",
        f"Idea: open it elsewhere\n{block('nor here', 'else')}",
        f"Idea: open it\n{block(INCLUDE, INCLUDE + USING)}\n{block('nowhere', 'else')}",
        block(": 0.0f;", ": 0.5f;"),
        "Cause: negative numbers become 0.5\nEvidence: want 0\nFix: 0.0f",
        block(": 0.5f;", ": 0.0f;"),
        "Idea: vectorise: float4\nI am not sure what to do.",
        "I am still not sure.",
        "DONE: enough",
    )
    with ModelServer(*(reply(text, size=500) for text in script)) as server:
        model_settings.write(Models((ModelSettings("test", server.base_url, "test-model", context_tokens=100_000),)))
        try:
            session = desk.start(few_runs("relu"), answered_by=AnsweredBy.LLM, autonomy=Autonomy.AUTO)
            state = desk.go(session)
        finally:
            model_settings.path().unlink()
    return session, state


def test_the_story_that_is_recorded(told):
    _, state = told
    assert state.status is SessionState.ACCEPTED
    assert [(s.status, len(s.calls), s.idea) for s in state.steps if s.tried][:5] == [
        (Status.COMPILE_ERROR, 1, "seed: plain"),
        (Status.PATCH_FAILED, 2, "open it elsewhere"),
        (Status.INCORRECT_NUMERICAL, 2, "seed: plain"),
        (Status.PASSED, 2, "seed: plain"),
        (Status.UNPARSED, 2, "vectorise: float4"),
    ]


def test_a_session_with_a_model_gives_the_same_verdicts_in_another_workspace(desk, elsewhere, told, tmp_path):
    session, before = told
    export(desk.store, session, "jsonl", tmp_path / "told.jsonl.gz")
    imported = import_path(elsewhere.store, tmp_path / "told.jsonl.gz")
    again, after = walked_again(elsewhere, imported.session)

    assert after.status is SessionState.ACCEPTED, after.reason
    assert story(after) == story(before)
    assert after.best == before.best
    assert after.tokens == 0
    assert _said(elsewhere.store, again) == _said(desk.store, session)
    trial = views.step_view(elsewhere.store, again, 4).trial
    assert not trial.cached
    assert (
        trial.correctness.verdicts[0].seed != views.step_view(desk.store, session, 4).trial.correctness.verdicts[0].seed
    )


def _said(store: Store, session: str):
    """Prompts and replies, in order."""
    answers = [r.event for r in store.events(session) if isinstance(r.event, ModelAnswered) and not r.event.error]
    tried = {step.number for step in views.session_view(store, session).state.steps if step.candidate}
    return [(store.text(a.prompt), store.text(a.reply), a.finish) for a in answers if a.step in tried]


def test_several_candidates_are_really_tried_and_tried_again_from_an_export(desk, elsewhere, tmp_path):
    script = (
        whole("wrong", RELU.replace(": 0.0f;", ": 0.5f;")),
        whole("right", RELU),
        whole("does not compile", RELU.replace("using namespace cute;", "")),
    )
    with ModelServer(*(reply(text, size=500) for text in script)) as server:
        model_settings.write(Models((ModelSettings("test", server.base_url, "test-model", context_tokens=100_000),)))
        try:
            session = desk.start(
                few_runs("relu"),
                answered_by=AnsweredBy.LLM,
                autonomy=Autonomy.AUTO,
                max_steps=1,
                effort=Effort(width=3),
            )
            before = desk.go(session)
        finally:
            model_settings.path().unlink()
    assert [(a.idea, a.tried.status) for a in before.steps[0].alternatives] == [
        ("wrong", Status.INCORRECT_NUMERICAL), ("right", Status.PASSED), ("does not compile", Status.COMPILE_ERROR),
    ]  # fmt: skip
    assert (before.steps[0].idea, before.steps[0].outcome) == ("right", Outcome.PROMOTED)
    export(desk.store, session, "jsonl", tmp_path / "several.jsonl.gz")
    imported = import_path(elsewhere.store, tmp_path / "several.jsonl.gz")
    again, after = walked_again(elsewhere, imported.session)
    assert after.status is SessionState.ACCEPTED, after.reason
    assert [replace(a, tried=None) for a in after.steps[0].alternatives] == [
        replace(a, tried=None, model="recording") for a in before.steps[0].alternatives
    ]
    assert [a.tried.status for a in after.steps[0].alternatives] == [
        a.tried.status for a in before.steps[0].alternatives
    ]
    assert after.steps[0].candidate == before.steps[0].candidate
    assert _said(elsewhere.store, again)[:3] == _said(desk.store, session)[:3]
    other = views.alternatives(views.session_view(elsewhere.store, imported.session).state, before.steps[0])[0]
    assert elsewhere.store.text(other.candidate) == RELU.replace(": 0.0f;", ": 0.5f;"), "its code came with the export"
    assert not other.can_choose, "an imported session is read-only"


def test_what_the_person_turned_down_is_not_tried_and_what_they_accepted_is_accepted(desk):
    session = desk.start(few_runs("relu"))
    desk.go(session)
    desk.decide(session, DecisionKind.REJECT, text="not this one")
    desk.approve(session)
    state = desk.approve(session)
    accepted = state.best
    desk.approve(session)
    state = desk.decide(session, DecisionKind.REJECT, text="no better")
    state = desk.decide(session, DecisionKind.ACCEPT, candidate=accepted)
    tried = [s.candidate for s in state.steps if s.tried]
    assert [s.outcome for s in state.steps[:3]] == [Outcome.REJECTED, Outcome.PROMOTED, Outcome.REJECTED]

    _, after = walked_again(desk, session)
    assert after.status is SessionState.ACCEPTED
    assert [s.candidate for s in after.steps if s.candidate] == tried
    assert after.best == accepted


def test_an_edit_that_an_older_session_left_unnamed_has_the_same_name_in_its_replay(desk):
    session = desk.start(few_runs("relu"))
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    state = desk.decide(session, DecisionKind.EDIT, source=RELU.replace(": 0.0f", ": 0.5f"), candidate=state.best)
    assert "edited by hand" in [s.idea for s in state.steps]
    tried = [told for told in story(views.session_view(desk.store, session).state) if told[-1] is not None]
    _, after = walked_again(desk, session)
    assert story(after) == tried
    assert len(tried) == 2
    assert "edited by hand" not in [idea for _, _, idea, _ in tried]


def test_an_imported_session_is_as_it_was_and_takes_no_decisions(desk, elsewhere, told, tmp_path):
    session, before = told
    export(desk.store, session, "jsonl", tmp_path / "told.jsonl")
    imported = import_path(elsewhere.store, tmp_path / "told.jsonl")
    state = views.session_view(elsewhere.store, imported.session).state
    assert story(state) == story(before)
    assert [s.outcome for s in state.steps] == [s.outcome for s in before.steps]
    assert "told.jsonl" in state.settings.origin
    with pytest.raises(AssertionError, match="read-only"):
        elsewhere.decide(imported.session, DecisionKind.REDIRECT, text="go on")


# ---- the recording that ships


def lines():
    with gzip.open(SHIPPED, "rt", encoding="utf-8") as packed:
        return [json.loads(line) for line in packed]


def test_the_shipped_recording_says_where_it_was_made_and_names_no_machine():
    head, *rest = lines()
    assert (head["problem"], head["executor"], head["origin"]) == ("softmax", "cpu", "here")
    settings = next(line["event"]["settings"] for line in rest if "event" in line)
    assert "emulator" in settings["title"]
    assert "emulated" in settings["device_name"]
    text = gzip.decompress(SHIPPED.read_bytes()).decode()
    assert not re.findall(r"/(?:home|work|tmp|root|usr|var)/[^\s\"\\]+", text)
    assert SHIPPED.stat().st_size < 300_000


@pytest.mark.thorough
def test_the_shipped_recording_imports_and_replays_to_accepted(elsewhere):
    imported = import_path(elsewhere.store, SHIPPED)
    before = views.session_view(elsewhere.store, imported.session).state
    assert before.status is SessionState.ACCEPTED
    assert [s.outcome for s in before.steps[2:]] == [Outcome.EDITED, Outcome.REDIRECTED, Outcome.PROMOTED]
    assert before.steps[3].author is Author.PERSON
    assert before.steps[4].instruction

    again, after = walked_again(elsewhere, imported.session)
    assert after.status is SessionState.ACCEPTED, after.reason
    assert story(after) == story(before)
    assert after.best == before.best
    assert views.acceptance_trial(elsewhere.store, after).passed
    assert not views.step_view(elsewhere.store, again, 1).trial.cached
