"""Wherever a time of several benchmark workloads is told, every one of them is: none stands for the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from cutegen_core import views
from cutegen_core.evaluate.sweep import SweepRow, SweepTable
from cutegen_core.evaluate.variant import VariantResult
from cutegen_core.records.performance import ShapeTime, Word
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import Status
from cutegen_core.share.exports import html
from cutegen_core.share.slides.deck import deck
from cutegen_core.share.slides.slides import slide
from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.pages.conftest import OpenPage, shown
from tests.pages.role_stories import roles_story

delta_tiles = Later("pages.components.compare_present.delta_tiles")
versus = Later("pages.components.compare_present.versus")
ablation = Later("pages.components.session.ablation")
step_list = Later("pages.components.session.step_list")
sweep = Later("pages.components.session.evidence.sweep")
speed_charts = Later("pages.components.shared.speed_charts")

MEAN = "geometric mean"


def shapes_of(store: Store, session: str) -> list[str]:
    problem = views.session_view(store, session).problem
    return [w.name for w in problem.with_role(WorkloadRole.BENCHMARK)]


def timing_pane(store: Store, session: str, open_page: OpenPage) -> str:
    return shown(open_page("session", id=session, step=3, pane="timing"))


def shapes_pane(store: Store, session: str, open_page: OpenPage) -> str:
    return shown(open_page("session", id=session, step=3, pane="shapes"))


def compare_page(store: Store, session: str, open_page: OpenPage) -> str:
    return shown(open_page("compare", a=f"{session}.2", b=f"{session}.3"))


def compare_tile(store: Store, session: str, open_page: OpenPage) -> str:
    a, b = (views.step_view(store, session, number).trial for number in (2, 3))
    return delta_tiles._time(a, b)


def step_slide(store: Store, session: str, open_page: OpenPage) -> str:
    whole = deck(views.session_view(store, session))
    stop = next(stop for stop in whole.stops if stop.number == 3)
    return str(slide(store, whole, stop).measured)  # type: ignore[union-attr]


def exported_page(store: Store, session: str, open_page: OpenPage) -> str:
    return html.document(store, session)


def spoken_row(store: Store, session: str, open_page: OpenPage) -> str:
    view = views.session_view(store, session)
    tree, speeds = views.step_tree(view.state), {s.step: s for s in views.speed_rows(store, view.state)}
    return step_list.said(view.steps[2], tree[2], "model", speeds[3]) + MEAN  # the row shows the mean as its time


@pytest.mark.by_default(4)
@pytest.mark.parametrize(
    "tell", [timing_pane, shapes_pane, compare_page, compare_tile, step_slide, exported_page, spoken_row]
)
def test_every_shape_is_told(store: Store, open_page: OpenPage, tell: Callable[[Store, str, OpenPage], str]) -> None:
    session = roles_story(store).session
    told, names = tell(store, session, open_page), shapes_of(store, session)
    assert len(names) > 2
    assert [name for name in names if name not in told] == []
    assert MEAN in told


@pytest.mark.by_default(2)
@pytest.mark.parametrize("tell", [shapes_pane, compare_page, compare_tile, step_slide, spoken_row])
def test_the_shape_that_became_slower_is_named(
    store: Store, open_page: OpenPage, tell: Callable[[Store, str, OpenPage], str]
) -> None:
    session = roles_story(store).session
    told = re.sub(r"<[^>]+>", " ", tell(store, session, open_page))
    assert re.search(rf"regressed on\W+{re.escape(shapes_of(store, session)[0])}\b", told), told[-2000:]


def test_a_comparison_leads_with_all_shapes_not_with_the_first(store: Store) -> None:
    session = roles_story(store).session
    a, b = (views.step_view(store, session, number).trial for number in (2, 3))
    found = versus.compared(a, b)
    whole = versus.mean(found)
    assert whole is not None
    assert (found[0].speedup.word, whole.word) == (Word.SLOWER, Word.FASTER)  # type: ignore[union-attr]
    assert "faster" in delta_tiles._time(a, b).partition("</b>")[0]


def test_a_kernel_that_regressed_was_never_the_best_so_far(store: Store) -> None:
    story = roles_story(store)
    view = views.session_view(store, story.session)
    speeds = views.speed_rows(store, view.state)
    assert speeds[2].latency_us < speeds[1].latency_us
    best = speed_charts.latency_over_steps(view.steps, speeds, None).data[0]
    assert list(best.y) == [speeds[0].latency_us, speeds[1].latency_us, speeds[1].latency_us]
    whole = deck(view)
    drawn = slide(store, whole, next(stop for stop in whole.stops if stop.number == 3))
    assert f"best kernel so far: {speeds[1].latency_us:.4g}" in drawn.progress.label  # type: ignore[union-attr]


def test_a_sweep_and_an_ablation_tell_every_shape() -> None:
    shapes = (ShapeTime("short", 0.010, Word.SLOWER, 0.8), ShapeTime("long", 0.040, Word.FASTER, 1.5))
    row = SweepRow({"BLOCK": 128}, Status.PASSED, "", 32, 0, 1.0, 0.020, Word.FASTER, shapes)
    drawn = sweep._table(SweepTable((replace(row, shapes=shapes), row), 0, 0))
    assert all(text in drawn for text in ("mean, µs", "short", "10 ▼", "long", "40 ▲"))
    told = ablation._told(VariantResult(Status.PASSED, latency_ms=0.02, word=Word.FASTER, shapes=shapes))
    assert told == "20 µs ▲ faster, regressed on short"
