"""The page Bench by Streamlit's own runner: settings, one bench while it runs and after, beside an earlier one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cutegen_core import views
from cutegen_core.problems import sets
from cutegen_core.records.bench import BenchSettings
from cutegen_core.records.decision import Effort
from cutegen_core.records.event import AnsweredBy
from cutegen_core.records.job import JobState
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.pages.bench_stories import bench_story
from tests.pages.conftest import OpenPage, button_of, framed, shown

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def charts(page: AppTest) -> int:
    return len(page.get("plotly_chart"))


def test_a_set_is_chosen_and_started(store: Store, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("bench")
    page.selectbox(key="bench-set").set_value("astra").run()
    page.checkbox(key="bench-tune").check().run()
    page.number_input(key="bench-steps").set_value(7).run()
    button_of(page, "bench-start").click().run()
    assert not page.exception
    (job,) = views.bench_jobs(store)
    settings = views.bench_view(store, job.id).settings
    assert (settings.problems, settings.tune, settings.max_steps) == (sets.resolve("astra"), True, 7)
    assert (settings.answered_by, job.state) == (AnsweredBy.PLAYBOOK, JobState.WAITING)
    assert "It waits for its turn" in shown(open_page("bench", bench=job.id))
    again = open_page("bench", like=job.id)
    assert (again.selectbox(key="bench-set").value, again.checkbox(key="bench-tune").value) == ("astra", True)


def test_all_settings_of_an_earlier_bench_are_taken(store: Store, open_page: OpenPage) -> None:
    asked = BenchSettings(
        "gnn", sets.resolve("gnn"), executor=ExecutorKind.CPU, max_steps=5000,
        effort=Effort(enough=0.5, max_minutes=3.0),
    )  # fmt: skip
    first = start.create_bench(store, asked)
    page = open_page("bench", like=first)
    assert "at most 3 minutes a session, enough at 50 % of the bound, runs on the emulator" in shown(page)
    button_of(page, "bench-start").click().run()
    (again,) = (job for job in views.bench_jobs(store) if job.id != first)
    found = views.bench_view(store, again.id).settings
    assert replace(found, arch="") == asked


def test_settings_of_no_bench_leave_the_form(store: Store, open_page: OpenPage) -> None:
    page = open_page("bench", like="nothing")
    assert "There is no bench “nothing” to take settings from" in shown(page)
    assert not button_of(page, "bench-start").disabled


def test_files_are_found_before_it_can_start(store: Store, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("bench")
    page.selectbox(key="bench-set").set_value("level1").run()
    assert button_of(page, "bench-start").disabled
    page.text_input(key="bench-checkout").set_value(str(tmp_path)).run()
    assert "is no KernelBench checkout" in shown(page)
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "19_ReLU.py").write_text("")
    page.run()
    assert button_of(page, "bench-start").label == "Start with 1 problem"
    page.selectbox(key="bench-set").set_value("folder").run()
    page.text_input(key="bench-folder").set_value(str(tmp_path / "level1")).run()
    button_of(page, "bench-start").click().run()
    (job,) = views.bench_jobs(store)
    assert views.bench_view(store, job.id).settings.problems == (str(tmp_path / "level1" / "19_ReLU.py"),)


def test_a_timed_bench_shows_figures_charts_and_a_way_to_each_session(store: Store, open_page: OpenPage) -> None:
    bench = bench_story(store)
    page = open_page("bench", bench=bench)
    text = shown(page)
    assert "a kernel passed for 10 of 12 problems, 83 %" in text
    assert "geometric mean" in text
    assert "fast_1.5" in text
    assert charts(page) == 4
    lines = views.bench_lines(store, bench)
    assert all(f'href="session?id={line.session}"' in text for line in lines if line.session)
    assert text.index("did not load") < text.index("✓ passed"), "what has no kernel comes first"
    assert "broken.py: has no Model" in text


def test_without_a_gpu_it_says_that_nothing_was_timed(store: Store, open_page: OpenPage) -> None:
    page = open_page("bench", bench=bench_story(store, on_gpu=False))
    assert "Nothing was timed" in shown(page)
    assert "Coverage: a kernel passed for 10 of 12 problems" in shown(page)
    assert "of the bound" not in shown(page).partition("Problems · ")[2]
    assert charts(page) == 1
    (chart,) = page.get("plotly_chart")
    assert json.loads(chart.proto.spec)["layout"]["xaxis"]["dtick"] == 1, "no number stands at two ticks"


def test_a_bench_is_compared_with_an_earlier_one(store: Store, open_page: OpenPage) -> None:
    before, now = bench_story(store), bench_story(store, faster=1.25)
    page = open_page("bench", bench=now)
    assert "Changed since then" not in shown(page)
    page.selectbox(key=f"bench-against-{now}").set_value(before).run()
    assert "Changed since then · 10 of 12 problems in common" in shown(page)
    assert "1.25" in shown(page)
    assert before in page.query_params["against"]


def test_a_running_bench_says_how_long_the_rest_takes_and_is_stopped(store: Store, open_page: OpenPage) -> None:
    bench = bench_story(store, done=6)
    page = open_page("bench", bench=bench)
    (progress,) = page.get("progress")
    assert "about 3 min" in progress.proto.text
    assert progress.proto.text.replace("\\", "").startswith("6 of 12 · relu · runs for ")
    button_of(page, "bench-stop").click().run()
    assert jobs.stop_wanted(store, bench)
    jobs.end(store, bench, JobState.STOPPED)
    page.run()
    assert "</i> 4 of 12, 6 not done<" in shown(page)
    assert "<i>took</i> 2 min" in shown(page), "the seconds of the problems that are done, whenever they ran"
    button_of(page, "bench-go-on").click().run()
    assert jobs.get(store, bench).state is JobState.WAITING


def test_sessions_of_benches_are_listed_when_asked_for(store: Store, open_page: OpenPage) -> None:
    bench = bench_story(store)
    sessions = [line.session for line in views.bench_lines(store, bench) if line.session]
    page = open_page("start")
    assert page.toggle(key="bench-sessions").label == f"With {len(sessions)} sessions of benches"

    def listed() -> int:
        return sum(any(session in str(link.proto) for session in sessions) for link in page.get("page_link"))

    assert listed() == 0
    page.toggle(key="bench-sessions").set_value(True).run()
    assert listed() == len(sessions)


def test_what_is_no_bench_is_said(store: Store) -> None:
    assert "No benches yet" in shown(framed("bench"))
    assert "in this workspace" in shown(framed("bench", bench="nothing"))
