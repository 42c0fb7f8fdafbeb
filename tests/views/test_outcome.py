"""The outcome of a step in one line: the verdict, the speed against what, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import AnsweredBy, Outcome, SessionState, StateChanged, StepClosed
from cutegen_core.records.evidence import Tone
from cutegen_core.records.performance import Word
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import gpu_story, shapes_story
from tests.pages.stories import KERNEL, ONE_PASS, Story, not_compiled, passed, softmax_story


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


def line(store: Store, story: Story, step: int) -> list[str]:
    view = views.session_view(store, story.session)
    return [part.text for part in views.outcome_line(view.state, views.step_view(store, story.session, step))]


def test_a_timed_step_says_how_fast_against_what_and_what_is_asked(store: Store) -> None:
    story = gpu_story(store)
    best = line(store, story, 5)
    assert best[:2] == ["All 15 runs correct", "131.2 µs"]
    assert "1.12x faster than eager" in best
    assert best[-2:] == ["96 % of the memory bound", "promoted"]
    assert line(store, story, 3)[-1] == "promoted; the best is now step 5"
    suspect = line(store, story, 6)
    assert suspect[0].startswith("Suspect: ")
    assert not any("faster" in part for part in suspect), "a time that is no result is compared with nothing"
    assert line(store, story, 8)[-1] == "Passed. Check it yourself, then promote?"


def test_without_a_gpu_it_says_right_or_wrong_and_why_nothing_is_measured(store: Store) -> None:
    story = softmax_story(store)
    assert line(store, story, 3) == ["All 15 runs correct", "not measured: needs a GPU", "promoted"]
    wrong = line(store, story, 5)
    assert wrong[0].startswith("Wrong result: workload ragged: 21 of 7147 elements")
    assert wrong[1:] == ["Continue without it?"]
    assert line(store, story, 4)[0].startswith("Does not compile: ")


@pytest.mark.parametrize(
    ("word", "why"), [(Word.SAME, "within noise of the best"), (Word.SLOWER, "slower than the best")]
)
def test_a_kernel_that_is_not_promoted_says_why(store: Store, word: Word, why: str) -> None:
    story = gpu_story(store)
    view, shown = views.session_view(store, story.session), views.step_view(store, story.session, 7)
    assert shown.step.tried
    tried = replace(shown.step.tried, against_best=word)
    step = replace(shown.step, outcome=Outcome.KEPT, tried=tried)
    assert views.outcome_line(view.state, shown._replace(step=step))[-1].text == f"not promoted: {why}"
    assert "not promoted: regressed on large" in line(store, shapes_story(store), 2)[-1]


@pytest.mark.parametrize(
    ("who", "asked"),
    [
        (AnsweredBy.LLM, "Continue and repair?"),
        (AnsweredBy.PERSON, "Continue and repair?"),
        (AnsweredBy.PLAYBOOK, "Continue without it?"),
    ],
)
def test_before_a_verdict_it_says_what_is_waited_for(store: Store, who: AnsweredBy, asked: str) -> None:
    story = Story(store, answered_by=who).begin()
    first = story.propose(KERNEL, "first")
    story.gate(Gate.DIFF, first)
    assert line(store, story, 1) == ["Not tested", "Compile and test it?"]
    story.approve(Gate.DIFF, first).test(passed(store, first)).gate(Gate.PROMOTION, first)
    assert line(store, story, 1)[-1] == "Passed. Promote?"
    story.approve(Gate.PROMOTION, first).promote(first)
    second = story.propose(ONE_PASS, "second")
    story.test(not_compiled(second)).gate(Gate.PROMOTION, second)
    assert line(store, story, 2)[-1] == asked, "the playbook repairs nothing"
    story.add(StepClosed(2, Outcome.REWOUND), StateChanged(SessionState.ACCEPTED, "passed again"))
    assert line(store, story, 2)[-1] == "went back"
    assert line(store, story, 1)[-1] == "accepted: passed again with fresh inputs"


def test_the_verdict_has_the_tone_of_what_it_says(store: Store) -> None:
    story = softmax_story(store)
    view = views.session_view(store, story.session)
    tones = [
        views.outcome_line(view.state, views.step_view(store, story.session, n))[0].tone
        for n in range(1, story.steps + 1)
    ]
    assert tones == [Tone.GOOD, Tone.BAD, Tone.GOOD, Tone.BAD, Tone.BAD]
