"""Measured speed on the pages: timing, roofline, profile, machine code, timeline, sweep, compare; keeping hunks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cutegen_core.evaluate.ablation import AblationRow, AblationTable
from cutegen_core.evaluate.sweep import SweepRow, SweepTable
from cutegen_core.evaluate.variant import VariantResult
from cutegen_core.records.decision import Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    Outcome,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    Studied,
)
from cutegen_core.records.performance import Word
from cutegen_core.records.trial import ExecutorKind, KernelResources, Occupancy, Resources, Status
from cutegen_core.trajectory.store import Store
from cutegen_core.views import MachineCode
from tests.later import Later
from tests.pages.conftest import OpenPage, button_of, shown, step_rows
from tests.pages.gpu_stories import gpu_story, matmul_story, shapes_story
from tests.pages.stories import HOSTILE, KERNEL, ONE_PASS, VECTORS, Story, hostile_story, race, softmax_story

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def _figures(page: AppTest) -> str:
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    return json.dumps(specs, ensure_ascii=False)


def _labels(page: AppTest) -> list[str]:
    return [button.label.replace("\\", "") for button in page.button]


def test_header_timeline_and_timing_of_the_best_step(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=5)
    text = shown(page)
    for words in (
        "step 5 ★ 131.2 µs ±0.6 %",
        "<i>vs eager</i> 1.12x faster",
        "<i>vs step 1</i> 1.31x faster",
        "96 % of the memory bound",
    ):
        assert words in text
    assert "not sanitized" in text
    assert "that happens before the kernel is accepted" in text
    assert step_rows(page)[5]["said"] == (
        "Step 5: one pass, 128-bit loads · playbook · promoted · the best so far · 131.2 µs · "
        "1.12x faster than eager · continues from step 3"
    )
    for words in ("torch.mm: not measured (", "measured again in a fresh process: 131.8 µs, +0.4 %", "driver 580.95.05",
                  "1965 to 1980 MHz", "L2 flushed by writing 132 MB", "4.09 TB/s"):  # fmt: skip
        assert words in text
    assert "▲ 1.12x faster than eager" in text
    figures = _figures(page)
    assert "1.12x faster" in figures
    assert "bound 126.3" in figures


def test_every_workload_and_their_mean_are_compared(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=shapes_story(store).session, step=2, pane="timing")
    text = shown(page)
    for words in ("Speed on 2 workloads", "geometric mean of 2 workloads", "1.91x faster", "1.25x slower"):
        assert words in text
    said = step_rows(page)[2]["said"]
    assert "small 90.16 µs · large 200.5 µs · regressed on large" in said
    assert "134.4 µs" in said, "the geometric mean"


def test_conditions_that_disturb_are_said(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("session", id=matmul_story(store).session, pane="timing"))
    assert "▲ power cap: the affected samples were dropped" in text
    assert "▲ 1: may have disturbed the measurement" in text
    assert "x slower than " in text
    assert "graph replay" in text
    assert "not measured again in a fresh process" in text


def test_marks_are_chips_with_explanations(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("session", id=gpu_story(store).session))
    assert "▲ unstable" in text
    assert "do not rely on this number" in text
    assert "◆ confirm" in text
    assert "check it yourself before you promote it" in text


def test_a_suspect_time_is_no_result(store: Store, open_page: OpenPage) -> None:
    story = gpu_story(store)
    page = open_page("session", id=story.session, step=6)
    text = shown(page)
    assert "SUSPECT, no result: 71.35 µs is less than the 110.2 µs" in text
    assert not re.search(r"▲ [\d.]+x faster", text)
    assert "2.06x" not in _figures(page)
    text = shown(open_page("session", id=story.session, step=6, pane="roofline"))
    assert "474 MB moved" in text
    assert "never shown as a result" in text


@pytest.mark.by_default(1)
@pytest.mark.parametrize("pane", ["timing", "roofline", "profile"])
def test_without_a_gpu_the_panes_say_so(store: Store, open_page: OpenPage, pane: str) -> None:
    text = shown(open_page("session", id=softmax_story(store).session, step=3, pane=pane))
    assert "eeds a GPU" in text


def test_a_kernel_that_failed_on_a_gpu_is_not_said_to_lack_one(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    for source in (KERNEL, ONE_PASS):
        key = story.propose(source, "no barriers")
        story.test(replace(race(store, key), executor=ExecutorKind.GPU)).close(Outcome.FAILED, "race on partial")
    session = story.publish().session
    for text in (
        shown(open_page("compare", a=f"{session}.1", b=f"{session}.2")),
        shown(open_page("session", id=session, step=1, pane="roofline")),
    ):
        assert re.search(r"(timed: |not measured \()workload ragged: race on partial at line 26", text)
        assert "eeds a GPU" not in text


def test_without_a_gpu_the_roofline_says_so_in_its_own_letters(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("session", id=softmax_story(store).session, step=3, pane="roofline"))
    assert "No roofline: the time was not measured (timing needs a GPU: the emulator tests kernels" in text


def test_roofline_in_words_and_with_both_bounds(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=5, pane="roofline")
    text = shown(page)
    assert "96 % of the memory bound" in text
    assert "131.2 µs of at least 126.3 µs" in text
    assert "compulsory" in text
    figures = _figures(page)
    for words in ("memory 4.25 TB/s", "fp32 51.4 TFLOP/s", "torch.compile", "optimization path", "compulsory bound"):
        assert words in figures


def test_profile_beside_the_parents_and_heat_in_the_source(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=5, pane="profile", view="source")
    text = shown(page)
    assert "duration, us" in text
    assert "▼ −21.3 (-14 %)" in text
    assert "likely bound by the memory" in text
    assert '<a class="cg-to-line" href="#L48">48</a>' in text
    assert 'id="L48"' in text
    assert "1806 of 3896 warp samples, mostly waiting: global or local memory" in text
    assert ">46 %</td>" in text


def test_a_profile_is_asked_for_and_its_failure_is_said(store: Store, open_page: OpenPage) -> None:
    story = gpu_story(store)
    page = open_page("session", id=story.session, step=1, pane="profile")
    page.button(key="profile-ask").click().run()
    (waiting,) = store.waiting()
    assert waiting.decision.study is StudyKind.PROFILE
    assert waiting.decision.candidate == store.put(KERNEL)
    story.add(Studied(StudyKind.PROFILE, store.put(KERNEL), "", "ncu may not read the counters: run as root"))
    assert "may not read the counters" in shown(open_page("session", id=story.session, step=1, pane="profile"))


def test_machine_code_with_source_lines_and_search(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=5, pane="sass")
    text = shown(page)
    assert "649 instructions, 649 with a line of this file" in text
    assert 'class="cg-at-' in text
    assert "cg-from" not in text, "in the order of the addresses"
    page.text_input(key="sass-search").input("LDG").run()
    assert "39 instructions match “LDG”" in shown(page)
    page.toggle(key="sass-grouped").set_value(True).run()
    assert "cg-from" in shown(page)
    page.toggle(key="sass-mix").set_value(True).run()
    assert not page.exception


def test_a_timed_sweep_has_a_chart_and_says_what_decided(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=7)
    text = shown(page)
    assert "★ default" in text
    assert "▼ slower" in text
    assert "Sweep · 9 points timed side by side, 3 of 4 tested passed" in text
    assert "Decided by measured latency" in text
    assert "39 turns of timing, 36 % of what timing every point in full takes" in text
    assert "2 points left out before compiling, since they cannot run here" in text
    assert "3 further points not tried" in text
    assert "not tested" in text
    assert "It is not a time." in text
    figures = _figures(page)
    assert "BLOCK=512, ITEMS=4, round" in figures
    assert "time so far, µs" in figures


def test_a_sweep_that_an_older_version_wrote_still_has_its_chart(store: Store, open_page: OpenPage) -> None:
    rows = (
        SweepRow({"BLOCK": 256}, Status.PASSED, "", 30, 0, 1.0, 0.131),
        SweepRow({"BLOCK": 512}, Status.PASSED, "", 24, 0, 1.0, 0.125, Word.FASTER),
    )
    old = SweepTable(rows, 1, 3, "measured latency, each timed in turns with the defaults")
    page = open_page("session", id=gpu_story(store, old).session, step=7)
    text = shown(page)
    assert "Sweep · 2 of 2 tested points passed" in text
    assert "not ranked by time" not in text
    assert "turns of timing" not in text
    assert "BLOCK=512" in _figures(page)


def test_compare_says_one_word_and_what_it_rests_on(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    page = open_page("compare", a=f"{session}.3", b=f"{session}.5")
    text = shown(page)
    assert "▲ 1.16x faster" in text
    assert "Measured in two runs, not in turns" in text
    assert "benchmark, of the memory bound, %" in text
    assert ", within noise" in shown(open_page("compare", a=f"{session}.5", b=f"{session}.8"))


def test_words_that_changed_are_marked(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    text = shown(open_page("session", id=session, step=5, view="inline"))
    assert text.count("cg-w") > 4
    for view in ("inline", "split"):
        assert "cg-w" in shown(open_page("session", id=session, step=5, view=view))


def _diff_gate(store: Store) -> Story:
    story = Story(store, answered_by=AnsweredBy.LLM).begin()
    seed = story.propose(KERNEL, "seed")
    story.promote(seed)
    return story.gate(Gate.DIFF, story.propose(ONE_PASS, "one pass"))


def test_some_hunks_are_kept_and_the_rest_is_told(store: Store, open_page: OpenPage) -> None:
    story = _diff_gate(store)
    page = open_page("session", id=story.session)
    button_of(page, "decide-hunks").click().run()
    assert page.query_params["view"] in ("hunks", ["hunks"])
    assert button_of(page, "decide-hunks").disabled
    page.button(key="hunk-switch-1").click().run()
    assert "1 of 2 hunks kept" in shown(page)
    assert button_of(page, "decide-hunks").label == "Keep 1 of 2 hunks"
    button_of(page, "decide-hunks").click().run()
    (waiting,) = store.waiting()
    decision = waiting.decision
    assert (decision.kind, decision.candidate) == (DecisionKind.EDIT, store.put(KERNEL))
    assert "float const higher" in (decision.source or "")
    assert "three passes" in (decision.source or "")
    assert decision.text.startswith("kept 1 of 2 hunks; dropped line 2, +1 -1: “idea = ")


def test_dropped_hunks_survive_a_reload_and_nonsense_is_ignored(store: Store, open_page: OpenPage) -> None:
    story = _diff_gate(store)
    page = open_page("session", id=story.session, view="hunks", drop="2,99,x")
    assert "✗ dropped · hunk 2 · line 41, +6 -1" in _labels(page)
    assert button_of(page, "decide-hunks").label == "Keep 1 of 2 hunks"
    page = open_page("session", id=story.session, view="hunks", drop="1,2")
    assert button_of(page, "decide-hunks").disabled


def test_markup_from_outside_stays_text_in_the_new_views(store: Store, open_page: OpenPage) -> None:
    story = hostile_story(store)
    for query in ({"view": "hunks"}, {"view": "split"}, {"pane": "timing"}, {"pane": "sass"}, {"pane": "roofline"}):
        page = open_page("session", id=story.session, step=2, **query)
        assert "<img" not in shown(page)
        assert not any("[link](" in button.label for button in page.button)
    assert HOSTILE.startswith("<img")


def test_hunks_are_tried_apart_and_the_table_says_what_each_is_worth(store: Store, open_page: OpenPage) -> None:
    story = _diff_gate(store)
    page = open_page("session", id=story.session, view="hunks")
    page.button(key="ablate").click().run()
    (waiting,) = store.waiting()
    assert (waiting.decision.study, waiting.decision.candidate) == (StudyKind.ABLATION, store.put(ONE_PASS))
    passed, words = Status.PASSED, {(): None, (1, 2): Word.FASTER, (2,): Word.FASTER, (1,): Word.SAME}
    times = {(): 0.1718, (1, 2): 0.1524, (2,): 0.1526, (1,): 0.1716}
    rows = tuple(
        AblationRow(kept, VariantResult(passed, "", 32, 0, 1.0, ms, words[kept])) for kept, ms in times.items()
    )
    found = AblationTable(("line 2, +1 -1", "line 41, +6 -1"), rows)
    story.add(Studied(StudyKind.ABLATION, store.put(ONE_PASS), store.put_record(found)))
    text = shown(open_page("session", id=story.session, view="hunks"))
    assert "+19.2 µs" in text
    assert "-19.2 µs" in text
    assert "171.6 µs = same" in text
    assert "Before the change: 171.8 µs" in text
    story.add(Studied(StudyKind.ABLATION, store.put(ONE_PASS), "", "the change has 9 hunks, at most 8 are tried apart"))
    assert "at most 8 are tried apart" in shown(open_page("session", id=story.session, view="hunks"))


def test_a_branch_goes_on_from_the_shown_step(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=gpu_story(store).session, step=3)
    assert button_of(page, "decide-branch").label == "Branch 3"
    button_of(page, "decide-branch").click().run()
    (waiting,) = store.waiting()
    assert (waiting.decision.kind, waiting.decision.step) == (DecisionKind.BRANCH, 3)


def test_a_session_that_is_over_opens_at_what_it_came_to(store: Store, open_page: OpenPage) -> None:
    story = gpu_story(store)
    accept = Decision(DecisionKind.ACCEPT, story.seq, candidate=store.put(VECTORS))
    story.close(Outcome.KEPT).add(StepStarted(9, None), StepClosed(9, Outcome.UNANSWERED))
    story.add(Decided(accept), StateChanged(SessionState.ACCEPTED))
    assert "Step 5</b> one pass, 128-bit loads" in shown(open_page("session", id=story.session))


@pytest.mark.parametrize("study", [StudyKind.PROFILE, StudyKind.ABLATION])
def test_a_wanted_look_at_a_kernel_can_be_stopped_when_the_session_is_over(
    store: Store, open_page: OpenPage, study: StudyKind
) -> None:
    story = softmax_story(store)
    story.add(StateChanged(SessionState.ACCEPTED))
    assert button_of(open_page("session", id=story.session), "decide-stop").disabled
    story.add(Decided(Decision(DecisionKind.STUDY, candidate=store.put(ONE_PASS), study=study)))
    assert not button_of(open_page("session", id=story.session), "decide-stop").disabled


def test_a_long_name_at_the_beginning_of_a_row_wraps() -> None:
    texts = Later("pages.components.shared.texts")
    name = "product<BM1, BN1, BK1, STAGES1, WIDE1, RASTER1, TURN1, 4> registers"
    made = texts.table(("", "base", "this"), [("registers", "32", "64"), (name, "128", "-")])
    assert '<td class="cg-long">product&lt;BM1' in made
    assert "<td>registers</td>" in made


def test_the_kernel_of_the_largest_launch_comes_first() -> None:
    sass = Later("pages.components.session.evidence.sass")
    kernels = tuple(KernelResources(name, f"{name}()", 24, 0, 0, 0, 0) for name in ("tail", "main"))
    launches = tuple(
        Occupancy("benchmark", name, (grid, 1, 1), (256, 1, 1), 0, 8, 1.0, waves, "threads")
        for name, grid, waves in (("tail", 1, 0.1), ("main", 4096, 15.5))
    )
    found = tuple(MachineCode(name, ()) for name in ("_Z6unusedv", "_Z4tailv", "_Z4mainv"))
    order = list(sass.launched_first(Resources("sm_90a", kernels, launches), found))
    assert order == [
        "main() · workload benchmark, 16 waves", "tail() · workload benchmark, 0.1 waves", "unused() · not launched",
    ]  # fmt: skip
