"""The timeline: its tree, what each row says, its keys, the way to the comparison, branches in the chart."""

from __future__ import annotations

import json

import pytest

from cutegen_core.trajectory.store import Store
from tests.pages.conftest import OpenPage, framed, shown, step_rows
from tests.pages.gpu_stories import branched_story, gpu_story, long_gpu_story
from tests.pages.stories import HOSTILE, Story, hostile_story, softmax_story


def test_every_step_says_what_it_is_and_where_it_comes_from(store: Store, open_page: OpenPage) -> None:
    rows = step_rows(open_page("session", id=branched_story(store).session))
    assert list(rows) == [*range(12, 0, -1)]
    assert [n for n in sorted(rows) if rows[n]["best"]] == [1, 5, 7, 8, 11]
    assert {rows[n]["lane"] for n in (1, 5, 7, 8, 11)} == {0}
    assert rows[3]["lane"] == rows[10]["rail"] == 1
    assert [rows[n]["star"] for n in (11, 8, 12)] == ["★", "☆", ""]
    assert (rows[11]["took"], rows[11]["ratio"], rows[11]["mark"]) == ("131.2 µs", "1.12x", "✦")
    assert (rows[9]["shape"], rows[9]["verdict"], rows[9]["ratio"]) == ("failed", "memory error", "")
    assert "by hand · promoted" in rows[7]["said"]
    assert "on the path to the best" in rows[7]["said"]
    assert rows[3]["said"].endswith("continues from step 1 · starts a branch")


def test_older_and_newer_walk_through_the_steps(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session)
    assert page.button(key="step-newer").disabled
    page.button(key="step-older").click().run()
    assert page.query_params["step"] in ("4", ["4"])
    assert "higher → higer, line 43" in shown(page), "recorded as edited by hand"
    page.button(key="step-newer").click().run()
    assert page.query_params["step"] in ("5", ["5"])
    first = open_page("session", id=softmax_story(store).session, step=1)
    assert first.button(key="step-older").disabled


@pytest.mark.parametrize(
    ("key", "step", "beside"), [("step-compare", 3, 5), ("step-compare-parent", 5, 3), ("step-compare-parent", 3, 1)]
)
def test_a_step_is_compared_with_the_best_and_with_its_parent(store: Store, key: str, step: int, beside: int) -> None:
    session = gpu_story(store).session
    page = framed("session", id=session, step=str(step))
    page.button(key=key).click().run()
    assert not page.exception
    asked = {name: "".join(page.query_params[name]) for name in ("a", "b")}
    assert asked == {"a": f"{session}.{beside}", "b": f"{session}.{step}"}


def test_the_best_has_no_other_best_and_the_seed_no_parent(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    assert open_page("session", id=session, step=5).button(key="step-compare").disabled
    assert open_page("session", id=session, step=1).button(key="step-compare-parent").disabled


def test_markup_in_an_idea_is_data(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=hostile_story(store).session)
    assert step_rows(page)[1]["idea"] == HOSTILE
    (drawn,) = (e for e in page.get("bidi_component") if e.proto.component_name == "cutegen-steps")
    assert HOSTILE not in drawn.proto.js_content + drawn.proto.css_content + drawn.proto.html_content


def test_the_chart_shows_where_branches_go_on(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=branched_story(store).session)
    (chart,) = page.get("plotly_chart")[:1]
    traces = json.loads(chart.proto.spec)["data"]
    way, others = traces[0], traces[1]
    assert way["x"] == [1, 5, None, 5, 7, None, 7, 8, None, 8, 11, None]
    assert others["x"][:3] == [1, 3, None]
    assert ["↰1"] in [trace.get("text") for trace in traces]


def test_a_session_that_just_began_says_so(store: Store, open_page: OpenPage) -> None:
    assert "Waiting for the first step" in shown(open_page("session", id=Story(store).begin().session))


def test_many_steps_are_one_element(store: Store, open_page: OpenPage) -> None:
    few = open_page("session", id=gpu_story(store).session)
    page = open_page("session", id=long_gpu_story(store, 80).session)
    assert len(step_rows(page)) == 80
    assert len(page.button) <= len(few.button) + 2
