"""Reading measured speed and machine code out of stored trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.evaluate.evidence.proof import MARK_WORDS
from cutegen_core.records import as_json
from cutegen_core.records.decision import Decision, DecisionKind, StudyKind
from cutegen_core.records.event import Decided, Studied
from cutegen_core.records.performance import BEST, COMPULSORY, Metric
from cutegen_core.records.trial import Mark
from cutegen_core.share.exports.html import document
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import SASS, gpu_story, measured, profile, suspect, timed
from tests.pages.stories import KERNEL, softmax_story


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


def test_the_strongest_baseline_is_the_fastest_one_and_never_the_sessions_own_best() -> None:
    workload = measured(152.4, best_us=131.2)
    assert min(workload.speedups, key=lambda s: s.ratio).baseline == BEST
    found = views.strongest(workload)
    assert found is not None
    assert (found.baseline, found.word) == ("eager", "SLOWER")


def test_every_mark_is_explained() -> None:
    assert set(MARK_WORDS) == set(Mark)


def test_a_share_is_of_the_bound_as_displayed() -> None:
    found = views.share(measured(131.2))
    assert found is not None
    assert found.words == "96 % of the memory bound"
    assert found.fraction == pytest.approx(126.32 / 131.25, abs=0.002)


def test_steps_in_order_with_what_the_chart_needs(store: Store) -> None:
    story = gpu_story(store)
    state = views.session_view(store, story.session).state
    rows = views.speed_rows(store, state)
    assert [row.step for row in rows] == [1, 3, 5, 6, 7, 8]
    assert rows[0].p10_us < rows[0].latency_us < rows[0].p90_us
    assert rows[0].bound_us == pytest.approx(126.3, abs=0.1)
    assert rows[0].baseline_us == pytest.approx(147.3, abs=0.1)
    untimed = softmax_story(store)
    assert views.speed_rows(store, views.session_view(store, untimed.session).state) == ()


def test_only_a_trial_that_is_suspect_is_called_so(store: Store) -> None:
    trial = suspect(store, store.put("x"), 131.2)
    assert trial.performance is not None
    workload = trial.performance.workloads[0]
    assert views.suspect(trial, workload) == workload.bound(COMPULSORY)
    honest = timed(store, store.put("y"), trial.performance)
    assert views.suspect(honest, workload) is None


def test_two_trials_compared_line_by_line(store: Store) -> None:
    story = gpu_story(store)
    a, b = (views.step_view(store, story.session, number).trial for number in (3, 5))
    rows = {(row.name, row.unit): row for row in views.compare_speed(a, b)}
    median = rows["benchmark, median", "µs"]
    assert (median.left, median.right) == (pytest.approx(152.4, abs=0.1), pytest.approx(131.2, abs=0.1))
    assert rows["benchmark, moved", "GB/s"].right == pytest.approx(4090, abs=5)
    assert views.compare_speed(None, None) == ()


def test_a_profile_that_was_asked_for_goes_before_the_trials_own(store: Store) -> None:
    story = gpu_story(store)
    state = views.session_view(store, story.session).state
    asked = views.profile_view(store, state, state.steps[2]).profile
    own = views.profile_view(store, state, state.steps[4]).profile
    assert asked is not None
    assert own is not None
    assert asked.kernels[0].metric("duration") == Metric("duration", 152.1, "us")
    rows = {row.name: row for row in views.profile_deltas(asked, own)}
    assert (rows["duration"].before, rows["duration"].value) == (152.1, 130.8)
    assert views.profile_view(store, state, state.steps[0]).profile is None


def test_launches_of_one_kernel_are_paired_in_their_order() -> None:
    first, second = profile(100.0, 32, 80.0), profile(50.0, 32, 80.0)
    twice = type(first)(first.tool, first.workload, (*first.kernels, *second.kernels))
    assert [views.profile_deltas(twice, twice, i)[0].before for i in (0, 1)] == [100.0, 50.0]
    assert views.profile_deltas(first, twice, 1)[0].before is None


def test_metrics_of_another_unit_are_not_compared() -> None:
    before, after = profile(100.0, 32, 80.0), profile(90.0, 32, 80.0)
    kernel = before.kernels[0]
    milliseconds = type(kernel)(kernel.kernel, (Metric("duration", 0.1, "ms"),))
    changed = type(before)(before.tool, before.workload, (milliseconds,))
    assert all(row.before is None for row in views.profile_deltas(changed, after))


def test_an_asked_profile_shows_on_the_rail_without_making_a_decision_stale(store: Store) -> None:
    story = gpu_story(store)
    seed = store.put(KERNEL)

    def stop(number: int) -> views.RailStop:
        state = views.session_view(store, story.session).state
        return next(s for s in views.rail(state, state.steps[number - 1]) if s.name == "profile")

    seen = views.session_view(store, story.session).state.meaning_seq
    assert stop(3).status is views.RailStatus.PASSED
    assert stop(1).status is views.RailStatus.SKIPPED
    story.add(Decided(Decision(DecisionKind.STUDY, study=StudyKind.PROFILE, candidate=seed)))
    assert stop(1).status is views.RailStatus.RUNNING
    asked = views.session_view(store, story.session).state.meaning_seq
    story.add(Studied(StudyKind.PROFILE, seed, "", "ncu may not read the counters"))
    assert (stop(1).status, stop(1).note) == (views.RailStatus.FAILED, "ncu may not read the counters")
    assert seen <= asked == views.session_view(store, story.session).state.meaning_seq


def test_chips_say_what_the_profiler_found(store: Store) -> None:
    story = gpu_story(store)
    found = profile(131.0, 40, 95.0)
    kernel = found.kernels[0]
    metrics = (
        Metric("duration", 131.0, "us"), Metric("shared memory cycles lost to bank conflicts", 62.5, "%"),
        Metric("bytes used per 32 B sector, loads", 4.0, ""), Metric("bytes used per 32 B sector, stores", 32.0, ""),
    )  # fmt: skip
    slow = type(found)(found.tool, found.workload, (type(kernel)(kernel.kernel, metrics, (), kernel.lines),))
    story.add(Studied(StudyKind.PROFILE, store.put(KERNEL), store.put(as_json.dump(slow))))
    view = views.session_view(store, story.session)
    chips = views.chips(store, view, views.step_view(store, story.session, 1))
    assert chips == (
        "bank conflicts cost 62 % of shared memory cycles: add a swizzle or padding",
        "loads use 4 bytes per 32 B sector: coalesce the accesses",
        "line 48 takes 46 % of the samples, stalled on global or local memory: reduce that stall",
    )


def test_machine_code_knows_its_lines() -> None:
    (code,) = views.parse_machine_code(SASS.read_text())
    assert code.mangled == "_Z7softmaxILi256EEvPKfPfi"
    rows = [row for row in code.instructions if row.address]
    assert rows[0] == ("0000", "LDC R1, c[0x0][0x28]", 34, "")
    assert all(row.line for row in rows)
    assert rows[-1].text.startswith(("BRA", "EXIT", "RET"))


def test_inlined_headers_lead_to_the_candidates_line() -> None:
    text = (
        '\t.section\t.text._Z1fv,"ax",@progbits\n'
        '\t//## File "cute/algorithm/copy.hpp", line 59 inlined at "candidate.cu", line 45\n'
        "        /*0000*/                   LDG.E R5, desc[UR8][R4.64] ;\n.L_x_0:\n"
        '\t//## File "cuda_fp16.hpp", line 7\n        /*0010*/              @!P0 BRA `(.L_x_0) ;\n'
        "        /*0020*/                   NOP;\n"
    )
    (code,) = views.parse_machine_code(text)
    assert code.instructions == (
        ("0000", "LDG.E R5, desc[UR8][R4.64]", 45, "cute/algorithm/copy.hpp:59"),
        ("", ".L_x_0:", 45, ""),
        ("0010", "@!P0 BRA `(.L_x_0)", 0, "cuda_fp16.hpp:7"),
    )


def test_the_report_tells_times_with_what_they_rest_on(store: Store) -> None:
    text = document(store, gpu_story(store).session)
    for words in (
        "<li>131.2 µs, A/A noise ±0.6 %, 100 samples</li>",
        "<li>96 % of the memory bound (126.3 µs for 537 MB)</li>",
        '<td>eager</td><td class="n">1.122x</td><td class="n">1.118 to 1.127</td><td class="n">1.12x faster',
        "<td>SM clock</td><td>1965 to 1980 MHz; memory 3201 MHz</td>",
        "SUSPECT, no result: 71.35 µs is less than the 110.2 µs",
        "<td>48</td><td>46 %</td><td>global or local memory</td>",
        "not sanitized: compute-sanitizer has not checked it yet",
    ):
        assert words in text
    assert "2.064x" not in text
