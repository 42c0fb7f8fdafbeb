"""Presenting a session: what each stop shows, stepping, following a session that goes on; nothing here decides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import views
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import SessionState, StateChanged
from cutegen_core.share import slides
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory.store import Store
from tests.pages.conftest import OpenPage, framed, shown
from tests.pages.gpu_stories import gpu_story
from tests.pages.stories import HOSTILE, VECTORS, hostile_story, long_story, passed, softmax_story

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

RECORDING = Path(__file__).parent.parent.parent / "assets" / "recordings" / "softmax-h200.jsonl.gz"


@pytest.fixture
def recorded(store: Store) -> str:
    return import_path(store, RECORDING).session


def press(page: AppTest, key: str) -> AppTest:
    page.button(key=f"present-{key}").click().run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def in_url(page: AppTest, name: str = "step") -> str:
    value = page.query_params.get(name, "")
    return value if isinstance(value, str) else value[0]


def test_the_beginning_is_problem_reference_device_and_conditions(open_page: OpenPage, recorded: str) -> None:
    text = shown(open_page("present", id=recorded))
    for words in ("Softmax, recorded on NVIDIA H200", "The reference", "on a GPU: NVIDIA H200", "atol 1e-06",
                  "L2 flushed by writing", "10, 6 of them with something to show"):  # fmt: skip
        assert words in text


def test_a_timed_step_in_one_glance(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("present", id=gpu_story(store).session, step=5))
    for words in ("Step 5", "one pass, 128-bit loads", "✓ passed", "by the playbook", "131.2 µs", "A/A noise ±0.6 %",
                  "1.12x faster</b> than eager", "1.16x faster</b> than the previous best", "96 % of the memory bound",
                  "Changed since step 3: 3 lines added, 3 removed", "DRAM throughput 95",
                  "line 48: 46 % of the samples, waiting for global or local memory",
                  'alt="latency to step 5; best kernel so far: 131.2 µs"'):  # fmt: skip
        assert words in text
    assert '<span class="p-o cg-w">*</span>' in text  # the words that changed, within the line


def test_the_curve_grows_to_the_shown_step(store: Store) -> None:
    deck = slides.deck(views.session_view(store, gpu_story(store).session))
    charts = [slides.slide(store, deck, stop).progress for stop in deck.stops if stop.number]
    marks = [chart.body.count("<circle") + chart.body.count("ch-failed") for chart in charts]
    assert marks == [1, 2, 3, 4, 5, 6, 7, 8]
    axes = {tuple(re.findall(r'<[^>]*class="ch-(?:tick|grid|bound)[^>]*>[^<]*', chart.body)) for chart in charts}
    assert len(axes) == 1


def test_failures_show_the_finding_and_the_line(store: Store, open_page: OpenPage) -> None:
    session = softmax_story(store).session
    wrong = shown(open_page("present", id=session, step=5))
    for words in ("✗ incorrect numerical", "only the last 3 columns", "first at [0, 1018]: got nan, want 0.00021",
                  'alt="where out is wrong'):  # fmt: skip
        assert words in wrong
    race = shown(open_page("present", id=session, step=2))
    assert "thread (32, 0, 0)" in race
    assert "↑ race: read of `partial`" in race
    assert "not measured (timing needs a GPU: the emulator tests kernels" in race
    assert "identifier &#34;higher&#34; is undefined" in shown(open_page("present", id=session, step=4))


def test_a_time_that_is_no_result_is_not_compared(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("present", id=gpu_story(store).session, step=6))
    assert "SUSPECT, no result: 71.35 µs is less than the 110.2 µs that the work takes at least" in text
    assert "2.06x" not in text


def test_what_a_person_said_stands_beside_what_came_of_it(open_page: OpenPage, recorded: str) -> None:
    text = shown(open_page("present", id=recorded, step=7))
    assert "A person asked for</span> “try 128 threads a block”" in text
    assert "A person rejected, because</span> “slower than what we have: keep the best”" in text


def test_the_result_says_how_it_was_proven(open_page: OpenPage, recorded: str) -> None:
    text = shown(open_page("present", id=recorded, step="result"))
    for words in ("Accepted: all tests again, with fresh inputs", "compute-sanitizer on ",
                  "x faster</b> than torch.compile", " % of the memory bound",
                  "vs the first kernel ("):  # fmt: skip
        assert words in text


def test_arrow_keys_walk_the_stops_and_pass_over_steps_that_left_nothing(open_page: OpenPage, recorded: str) -> None:
    page = open_page("present", id=recorded)
    shortcuts = {button.key: button.proto.shortcut for button in page.button}
    assert {shortcuts[f"present-{key}"] for key in ("first", "back", "play", "next", "last")} == {
        "home", "left", "space", "right", "end",
    }  # fmt: skip
    walked = [in_url(press(page, "next")) for _ in range(7)]
    assert walked == ["1", "2", "3", "5", "7", "9", "result"]
    assert page.button(key="present-next").disabled
    assert in_url(press(page, "back")) == "9"
    assert in_url(press(page, "first")) == "start"
    assert in_url(press(page, "last")) == "result"
    assert "Step 5" in shown(open_page("present", id=recorded, step=4))  # a link to a step without a stop


def test_panes_are_in_the_address(open_page: OpenPage, recorded: str) -> None:
    page = press(open_page("present", id=recorded, step=5), "pane-kernel")
    assert in_url(page, "pane") == "kernel"
    assert "The whole kernel" in shown(page)
    assert 'data-pane="speed"' in shown(open_page("present", id=recorded, step=5, pane="speed"))


def test_the_stops_carry_shape_and_word(store: Store, open_page: OpenPage) -> None:
    page = open_page("present", id=softmax_story(store).session, step=3)
    labels = [option.content.replace("\\", "") for option in page.get("button_group")[0].proto.options]
    assert labels == ["◇ Problem", "✓ 1", "✗ 2 memory error", "✓ 3 passed ★", "✗ 4 compile error",
                      "✗ 5 incorrect numerical", "★ Result"]  # fmt: skip


def test_a_session_that_goes_on_is_followed_until_somebody_steps_back(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = open_page("present", id=story.session)
    assert "Step 5</span>" in shown(page)
    key = story.propose(VECTORS + "// again\n", "the tail predicated")
    story.test(passed(store, key)).gate(Gate.PROMOTION, key)
    assert "the tail predicated" in shown(page.run())
    press(page, "back")
    other = story.propose(VECTORS + "// once more\n", "another one")
    story.gate(Gate.DIFF, other)
    assert "Step 5</span>" in shown(page.run())
    press(press(page, "next"), "next")
    assert in_url(page) == ""
    story.add(StateChanged(SessionState.ACCEPTED, "passed again with fresh inputs"))
    assert "★ Result" in shown(page.run())


def test_playing_is_paused_by_a_step_and_begins_anew_from_the_end(open_page: OpenPage, recorded: str) -> None:
    page = press(open_page("present", id=recorded, step="result"), "play")
    assert (in_url(page), page.button(key="present-play").label) == ("start", "Pause")
    assert press(page, "next").button(key="present-play").label == "Play"


def test_nothing_is_decided_here(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    before = store.last_seq(story.session)
    page = press(open_page("present", id=story.session), "back")
    assert {button.key.partition("-")[0] for button in page.button} == {"present"}
    assert (store.last_seq(story.session), store.waiting()) == (before, [])
    looked_at = Store(store.path, read_only=True)  # as a viewer has it
    deck = slides.deck(views.session_view(looked_at, story.session))
    drawn = [slides.draw(slides.slide(looked_at, deck, s), pane="change", pictures="image") for s in deck.stops]
    assert len(drawn) == 7


def test_markup_of_a_session_stays_text(store: Store, open_page: OpenPage) -> None:
    session = hostile_story(store).session
    for step in ("start", 1, 2):
        text = shown(open_page("present", id=session, step=step))
        assert "<img src=x" not in text
        assert HOSTILE not in text
    assert "&lt;img src=x" in text


def test_without_a_session_the_page_offers_them(store: Store, open_page: OpenPage) -> None:
    assert "Recorded sessions" in shown(open_page("present"))
    session = softmax_story(store).session
    page = press(open_page("present"), f"session-{session}")
    assert in_url(page, "id") == session
    assert "Step 5</span>" in shown(page)


def test_a_recorded_session_is_presented_from_the_start_page(store: Store) -> None:
    page = framed()
    page.button(key="recording-present-1").click().run()
    assert not page.exception, [e.value for e in page.exception]
    (session,) = store.sessions()
    assert in_url(page, "id") == session
    assert "The reference" in shown(page)


def test_a_step_that_is_not_there_is_said(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("present", id=softmax_story(store).session, step=99))
    assert "has no step “99”; it has 5 steps" in text


def test_of_many_stops_those_around_the_shown_one_are_offered(store: Store, open_page: OpenPage) -> None:
    page = open_page("present", id=long_story(store, 60).session, step=30)
    labels = [option.content for option in page.get("button_group")[0].proto.options]
    assert len(labels) == 13
    assert labels[6].startswith("✓ 30 passed")
