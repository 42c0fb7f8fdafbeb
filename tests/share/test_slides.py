"""Slides from stored sessions: which stops there are, what of a change is drawn, and pictures that are well-formed."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cutegen_core import views
from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.event import Decided, Outcome, SessionState, StateChanged, StepStarted, Tried
from cutegen_core.records.trial import Status
from cutegen_core.share import slides
from cutegen_core.share.exports.html import document
from cutegen_core.share.slides import code, proof
from cutegen_core.share.slides.svg import Picture, text
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import gpu_story, matmul_story
from tests.pages.stories import (
    HOSTILE,
    KERNEL,
    NO_BARRIER,
    ONE_PASS,
    Story,
    long_story,
    passed,
    resources,
    softmax_story,
    wrong,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


def deck_of(store: Store, story: Story) -> slides.Deck:
    return slides.deck(views.session_view(store, story.session))


def pictures(store: Store, deck: slides.Deck) -> list[Picture]:
    """Return every picture of every slide."""
    shown = [slides.slide(store, deck, stop) for stop in deck.stops]
    measured = [s.measured.bars for s in shown if hasattr(s, "measured")]
    charts = [s.progress for s in shown if hasattr(s, "progress")]
    evidence = [s.evidence.picture for s in shown if getattr(s, "evidence", None)]
    return [picture for picture in (*measured, *charts, *evidence) if picture]


def test_a_session_without_steps_has_its_problem_to_show(store: Store) -> None:
    deck = deck_of(store, Story(store).begin())
    assert [stop.title for stop in deck.stops] == ["Problem"]
    assert deck.goes_on
    assert deck.newest == 0
    assert deck.find("1") is None


def test_a_step_that_only_carried_an_instruction_has_no_stop(store: Store) -> None:
    story = Story(store).begin()
    seed = story.propose(KERNEL, "seed")
    story.test(passed(store, seed)).promote(seed)
    story.steps += 1
    story.add(StepStarted(story.steps, seed))
    open_deck = deck_of(store, story)
    assert [stop.word for stop in open_deck.stops] == ["the problem", "passed", "open", "so far"]
    story.close(Outcome.REDIRECTED, "use fewer registers")
    story.add(StateChanged(SessionState.STOPPED, "stopped by the person"))
    deck = deck_of(store, story)
    assert [stop.name for stop in deck.stops] == ["start", "1", "result"]
    assert deck.find("2") == 1  # a link to it leads to the next stop there is
    assert deck.find("3") is None
    assert not deck.goes_on


def test_an_open_step_of_a_session_that_ended_promises_no_kernel(store: Store) -> None:
    story = Story(store).begin()
    story.steps += 1
    story.add(StepStarted(story.steps, None))
    running = deck_of(store, story)
    assert slides.slide(store, running, running.stops[1]).message.startswith("The kernel appears here")
    ended = deck_of(store, story.add(StateChanged(SessionState.STOPPED, "stopped by the person")))
    step, result = (slides.slide(store, ended, stop) for stop in ended.stops[1:])
    assert (step.idea, step.message) == ("no kernel yet", "The session is stopped.")
    assert "pr-passed" not in slides.draw(result, pane="change", pictures="image"), "green is for what passed"


def test_a_step_that_was_never_tested_blames_no_missing_gpu(store: Store) -> None:
    story = Story(store).begin()
    story.propose(KERNEL, "seed")
    deck = deck_of(store, story.close(Outcome.REDIRECTED, "use fewer registers"))
    assert slides.slide(store, deck, deck.stops[1]).measured.note == "not tested"
    ended = deck_of(store, story.add(StateChanged(SessionState.STOPPED, "stopped by the person")))
    assert slides.slide(store, ended, ended.stops[-1]).measured.note == ""


def test_the_proof_of_a_kernel_rests_on_its_own_acceptance_test(store: Store) -> None:
    one = passed(store, "a" * 64)
    failed, other = wrong(store, one.candidate), passed(store, "b" * 64)
    assert proof.lines(one, one)[0] == "Accepted: all tests again, with fresh inputs"
    assert proof.lines(one, other) == proof.lines(one, None)
    assert proof.lines(one, failed)[0] == f"This kernel failed its acceptance test: {failed.message}"
    assert proof.lines(other, failed)[0] == f"Another kernel failed its acceptance test: {failed.message}"
    assert "Accepted" not in " ".join(proof.lines(one, failed))
    assert proof.lines(failed, failed) == (f"This kernel failed its acceptance test: {failed.message}",)
    assert f"It failed an acceptance test before: {failed.message}" in proof.lines(failed, one)


def test_a_step_whose_kernel_failed_its_acceptance_test_says_so_until_it_passes_one(store: Store) -> None:
    story = Story(store).begin()
    seed = story.propose(KERNEL, "seed")
    story.test(passed(store, seed, extra=1)).promote(seed)
    failed = Tried(1, seed, "", Status.INCORRECT_NUMERICAL, "7 elements are wrong", acceptance=True)
    story.add(failed, StateChanged(SessionState.AWAITING_REVIEW))
    deck = deck_of(store, story)
    assert slides.slide(store, deck, deck.stops[1]).message == "7 elements are wrong"
    again = store.put_record(passed(store, seed))
    story.add(
        Decided(Decision(DecisionKind.ACCEPT, candidate=seed)),
        Tried(1, seed, again, Status.PASSED, acceptance=True),
        StateChanged(SessionState.ACCEPTED),
    )
    deck = deck_of(store, story)
    shown = slides.slide(store, deck, deck.stops[1])
    assert (shown.message, views.step_view(store, story.session, 1).trial.passed) == ("", True)


def test_the_instruction_mix_is_of_the_trial_that_holds(store: Store) -> None:
    story = Story(store).begin()
    seed = story.propose(KERNEL, "seed")
    story.test(passed(store, seed)).promote(seed)
    refuted = store.put_record(replace(wrong(store, seed), resources=resources(store, extra=5)))
    story.add(Tried(1, seed, refuted, Status.INCORRECT_NUMERICAL, "wrong", acceptance=True))
    (row,) = views.mix_rows(store, views.session_view(store, story.session).state)
    assert row.mix["FADD"] == 17


def test_the_proof_says_where_there_was_no_float64(store: Store) -> None:
    trial = passed(store, "a" * 64)
    assert trial.correctness
    assert "against a float64 reference" in proof.lines(trial, None)[0]
    runs = tuple(
        replace(run, comparisons=tuple(replace(c, no_float64="int8 has none") for c in run.comparisons))
        for run in trial.correctness.verdicts
    )
    without = replace(trial, correctness=replace(trial.correctness, verdicts=runs))
    assert "against the reference at its declared precision" in proof.lines(without, None)[0]


def test_a_small_change_is_drawn_with_as_much_around_it_as_fits() -> None:
    shown = code.change(KERNEL, NO_BARRIER, "step 1", {})
    assert shown.title.startswith("Changed since step 1")
    assert len(shown.rows) <= code.LARGE_ROWS
    assert any(row.kind == "gap" for row in shown.rows)
    assert shown.size in ("huge", "large", "middle")
    assert "three passes" not in "".join(str(row.text) for row in shown.rows if row.kind == "del")


def test_of_a_kernel_written_anew_only_the_new_one_is_drawn() -> None:
    other = "\n".join(f"int line_{n};" for n in range(20))
    shown = code.change(KERNEL, other, "step 1", {})
    assert shown.title == "Mostly written anew since step 1: 20 lines added, 44 removed"
    assert {row.kind for row in shown.rows} == {"add"}


def test_the_launch_plan_is_folded_where_a_change_is_long() -> None:
    longer = ONE_PASS.replace("BLOCK = {", "WIDE = 4\nBLOCK = {") + "\n".join(f"int line_{n};" for n in range(60))
    shown = code.change(ONE_PASS, longer, "step 3", {})
    assert "the launch plan" in shown.rows[0].text
    assert "WIDE" not in "".join(str(row.text) for row in shown.rows)
    assert sum(row.kind == "add" for row in shown.rows) == 60


def test_what_was_said_of_a_line_stands_below_it_and_keeps_it_in_sight() -> None:
    shown = code.change(KERNEL, KERNEL.replace("three", "3"), "step 1", {})
    assert shown.title.startswith("The same kernel as step 1")
    shown = code.change(KERNEL, NO_BARRIER, "step 1", {19: ("not found",)})
    at = next(i for i, row in enumerate(shown.rows) if row.kind == "bad")
    assert (shown.rows[at].number, shown.rows[at + 1].text) == (19, "↑ not found")


def test_pictures_are_well_formed_and_told_in_words(store: Store) -> None:
    for story in (gpu_story(store), softmax_story(store), matmul_story(store), long_story(store, 40)):
        found = pictures(store, deck_of(store, story))
        assert found
        for picture in found:
            assert picture.label
            ElementTree.fromstring(picture.inline())


def test_a_picture_takes_any_text(store: Store) -> None:
    hostile = HOSTILE + "\x00\x1b\ud800\u202e</svg><script>"
    picture = Picture(10, 10, hostile, text(1, 1, hostile))
    read = ElementTree.fromstring(picture.inline())
    assert [element.tag.rpartition("}")[2] for element in read.iter()] == ["svg", "text"]
    assert "⟨ESC⟩" in "".join(read.itertext())
    encoded = re.search(r"base64,([^\"]+)\"", picture.image())
    assert encoded is not None
    ElementTree.fromstring(base64.b64decode(encoded[1]))


def test_the_content_policy_names_the_files_own_style_and_script_alone(store: Store) -> None:
    page = document(store, gpu_story(store).session)
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    for name in ("style", "script"):
        (inline,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]*\s(style|on\w+)=", page)
