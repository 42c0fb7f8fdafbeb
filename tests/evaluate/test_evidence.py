"""Evidence is worded once: what it says, and that prompts, the terminal, slides and the report say the same."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core import views
from cutegen_core.checking import trial_text
from cutegen_core.evaluate.evidence import failure, speed
from cutegen_core.evaluate.evidence.verdict import evidence
from cutegen_core.propose.prompting import feedback, profile_notes
from cutegen_core.records.event import Outcome
from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.performance import (
    Bound,
    Conditions,
    Performance,
    Speedup,
    Timing,
    Untimed,
    Word,
    WorkloadPerformance,
)
from cutegen_core.records.trial import ExecutorKind, Finding, Mark, Stage, StageResult, StageStatus, Status, Trial
from cutegen_core.share import slides
from cutegen_core.share.exports.html import document
from cutegen_core.share.slides.evidence import key_evidence
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import measured, profile, suspect, timed
from tests.pages.stories import KERNEL, Story, not_compiled, passed, race, wrong

CONDITIONS = Conditions("H200", "580", (1980, 1980), 3201, (40, 45), (300, 600), (), 0, 8, 1, 0.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.db")


def told(trial: Trial, *topics: Topic) -> list[str]:
    return [remark.text for section in evidence(trial).sections(*topics) for remark in section.remarks]


# ---- what it says


def test_a_wrong_output_is_described_by_pattern_count_size_and_first_elements(store: Store) -> None:
    found = evidence(wrong(store, "a" * 64))
    assert found.headline.startswith("INCORRECT_NUMERICAL at TEST: workload ragged: 21 of 7147 elements")
    output, run = found.cause
    assert output.title == "Output out [7, 1021] of workload ragged"
    assert [remark.text for remark in output.remarks][:6] == [
        "only the last 3 columns",
        "21 of 7147 elements of out are wrong (0.29 %)",
        "largest error 0.0013, 812x the tolerance; reference error 2.1e-08",
        "NaN: 21, never written: 21",
        "first at [0, 1018]: got nan, want 0.00021",
        "at [1, 1018]: got nan, want 0.00022",
    ]
    assert output.rows[0].cells == ("[0, 1018]", "nan", "0.00021")
    assert [remark.text for remark in run.remarks] == [
        "workload ragged, plain run, thread order forward, seed 7341", "passed before it: one, ragged",
    ]  # fmt: skip


def test_wrong_on_infinities_says_how_a_problem_does_without(store: Store) -> None:
    trial = wrong(store, "a" * 64)
    *before, failed = trial.correctness.verdicts
    on_infinities = replace(failed, workload="ragged, infinite values")
    trial = replace(trial, correctness=replace(trial.correctness, verdicts=(*before, on_infinities)))
    assert 'ALLOW = ("finite_math",)' in told(trial, Topic.RUN)[-1]


def test_a_finding_names_kind_variable_line_and_thread(store: Store) -> None:
    (finding,) = evidence(race(store, "a" * 64)).sections(Topic.FINDINGS)[0].remarks
    assert finding.text.startswith("race on partial at line 26, block (0, 0, 0), thread (32, 0, 0): read of `partial`")
    assert (finding.at, finding.tone, finding.cells[:3]) == (26, Tone.BAD, ("race", "partial", "26"))


def test_a_diagnostic_names_line_and_tool_and_folds_its_context() -> None:
    trial = not_compiled("a" * 64)
    (found,) = evidence(trial).cause[0].remarks
    assert found.text == 'line 40: error: identifier "higher" is undefined (nvrtc)'
    assert found.notes == ("in instantiation of softmax<256>", "candidate.cu(38): see the call here")


def test_a_launch_that_does_not_fit_shows_the_compiled_parameters(store: Store) -> None:
    stages = (StageResult(Stage.COMPILE, StageStatus.FAILED, 0.1),)
    usual = passed(store, "a" * 64)
    trial = Trial(
        "a" * 64, Status.LAUNCH_ERROR, stages, ExecutorKind.CPU, "argument 2 is no pointer", resources=usual.resources
    )
    (section,) = evidence(trial).cause
    assert section.topic is Topic.RESOURCES
    assert section.remarks[0].notes[0] in feedback.evidence(trial, KERNEL)
    assert "SASS" not in feedback.evidence(trial, KERNEL)


def test_the_proof_says_up_to_which_sizes(store: Store) -> None:
    trial = passed(store, "a" * 64)
    assert trial.correctness
    far = replace(trial, correctness=replace(trial.correctness, sizes=("judged up to rows = 64 of 4096",)))
    assert told(far, Topic.PROOF)[-1] == "Judged up to rows = 64 of 4096"


def test_a_kernel_that_passed_says_how_it_was_proven_and_what_it_costs(store: Store) -> None:
    trial = replace(passed(store, "a" * 64), marks=tuple(Mark))
    proof = told(trial, Topic.PROOF)
    assert proof[0] == "All 15 runs correct on 5 workloads on the emulator, against a float64 reference"
    assert "Instrumented runs on 5 workloads: no bad access, race or barrier" in proof
    assert len(told(trial, Topic.MARKS)) == len(Mark)
    assert told(trial, Topic.RESOURCES) == [
        "softmax<BLOCK>: 24 registers a thread, 0 B spilled, 1056 B static shared memory"
    ]
    before = passed(store, "b" * 64, registers=40).resources
    (cost,) = evidence(trial, before=before).sections(Topic.RESOURCES)[0].remarks
    assert "24 registers a thread (was 40)" in cost.text
    assert told(trial, Topic.SPEED) == [
        "not measured (timing needs a GPU: the emulator tests kernels but cannot time them)"
    ]


def test_equal_launches_of_a_workload_are_one_row_with_their_number(store: Store) -> None:
    trial = passed(store, "a" * 64)
    assert trial.resources
    first, *rest = trial.resources.occupancy
    rows = (first, replace(first, grid=(2, 1, 1)), first, *rest)
    trial = replace(trial, resources=replace(trial.resources, occupancy=rows))
    (section,) = evidence(trial).sections(Topic.OCCUPANCY)
    assert [row.cells[:2] for row in section.rows[:2]] == [("one, 2 launches", "1"), ("one", "2")]
    assert len(section.rows) == len(rows) - 1
    assert key_evidence(evidence(trial), trial, None, KERNEL).lines[0].startswith("benchmark, softmax<BLOCK>: ")


def test_what_a_run_that_passed_warned_of_is_said_once(store: Store) -> None:
    trial = passed(store, "a" * 64)
    warned = Finding("missing-fence", "a GPU may read what is copied", "tile", 69, "softmax", (0, 0, 0), (3, 0, 0))
    verdicts = tuple(replace(verdict, findings=(warned,)) for verdict in trial.correctness.verdicts)
    trial = replace(trial, correctness=replace(trial.correctness, verdicts=verdicts))
    said = [text for text in told(trial, Topic.PROOF) if "warning" in text]
    assert said == [
        "A warning: missing-fence on tile at line 69, block (0, 0, 0), thread (3, 0, 0): a GPU may read what is copied"
    ]


def test_a_time_stands_with_its_noise_its_bound_and_its_baselines(store: Store) -> None:
    timing = Timing("candidate", 1230.0, 1200.0, 1260.0, 0.004, 50)
    bounds = (Bound("graph", 4_050_000_000, 10, "fp32", 959.4, 1.0), Bound("compulsory", 1, 1, "", 1.0, 0.0))
    speedups = (
        Speedup("best", 0.99, 0.98, 1.01, Word.SAME), Speedup("torch.mm", 0.52, 0.51, 0.53, Word.SLOWER),
        Speedup("eager", 1.42, 1.40, 1.44, Word.FASTER),
    )  # fmt: skip
    untimed = (Untimed("torch.compile", "no compiler"),)
    workload = WorkloadPerformance("large", (timing,), speedups, untimed, 0.01, CONDITIONS, bounds)
    trial = timed(store, "a" * 64, Performance((workload,)))
    assert profile_notes.timing_text(trial) == (
        "large: 1.23 ms, A/A noise ±1 %, 50 samples; 78 % of the memory bound (959.4 µs for 4.05 GB); 3.29 TB/s; "
        "8.13e-09 TFLOP/s; torch.compile: not measured (no compiler); not measured again in a fresh process; "
        "1.92x slower than torch.mm (speedup 0.520x, 95 % interval 0.510 to 0.530); "
        "0.990x, within noise of the previous best (speedup 0.990x, 95 % interval 0.980 to 1.010); "
        "1.42x faster than eager (speedup 1.420x, 95 % interval 1.400 to 1.440)"
    )
    product = replace(workload, bounds=(Bound("graph", 200_000_000, 137_438_953_472, "fp32", 47.0, 762.6),))
    assert speed.reached_text(product) == "62 % of the compute bound (762.6 µs for 137 GFLOP on fp32)"
    beaten = replace(workload, bounds=(Bound("graph", 200_000_000, 137_438_953_472, "fp32", 47.0, 2 * 1230.0),))
    assert (
        speed.reached_text(beaten)
        == "200 % of the compute bound (2.46 ms for 137 GFLOP on fp32; other units need less)"
    )


def test_a_suspect_time_is_doubted_and_not_compared(store: Store) -> None:
    trial = suspect(store, "a" * 64, 147.0)
    assert "SUSPECT, no result: 71.35 µs is less than the 110.2 µs that the work takes at least" in told(trial)
    assert not evidence(trial).sections(Topic.SPEEDUPS)
    assert not any(words in line for line in told(trial, Topic.SPEED) for words in ("faster", "bound"))


# ---- who says it


def in_terminal(trial: Trial, capsys: pytest.CaptureFixture[str]) -> str:
    return trial_text(trial)


def in_report(store: Store, trial: Trial) -> tuple[str, slides.slides.StepSlide]:
    """Return the HTML of a session whose only step has this trial, unescaped, and the step's slide."""
    story = Story(store).begin(held=True, executor=trial.executor)
    key = story.propose(KERNEL, "an idea")
    story.test(replace(trial, candidate=key))
    story.close(Outcome.KEPT if trial.passed else Outcome.FAILED, "").publish()
    deck = slides.deck(views.session_view(store, story.session))
    slide = slides.slide(store, deck, next(stop for stop in deck.stops if stop.number))
    assert isinstance(slide, slides.slides.StepSlide)
    return html.unescape(document(store, story.session)), slide


FAILED: dict[str, Callable[[Store, str], Trial]] = {
    "wrong": wrong, "race": race, "not compiled": lambda _, key: not_compiled(key),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILED)
def test_every_writer_says_why_a_kernel_failed_in_the_same_words(
    store: Store, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    trial = FAILED[kind](store, "a" * 64)
    cause = evidence(trial).cause
    page, slide = in_report(store, trial)
    prompt, terminal = feedback.evidence(trial, KERNEL), in_terminal(trial, capsys)
    for section in cause:
        for remark in section.remarks:
            assert remark.text in prompt
            assert remark.text in terminal
            assert all(cell in page for cell in remark.cells or (remark.text,))
    assert slide.evidence is not None
    assert slide.evidence.title == cause[0].remarks[0].text
    assert set(slide.evidence.lines) <= {remark.text for section in cause for remark in section.remarks}


def test_every_writer_says_how_fast_a_kernel_is_in_the_same_words(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = timed(store, "a" * 64, Performance((measured(131.2, 150.0),), profile(131.2, 32, 95.0)))
    page, slide = in_report(store, trial)
    prompt, terminal = profile_notes.timing_text(trial), in_terminal(trial, capsys)
    for section in evidence(trial).sections(Topic.SPEED, Topic.SPEEDUPS):
        for remark in section.remarks:
            assert remark.text in prompt
            assert remark.text in terminal
            assert all(cell in page for cell in remark.cells or (remark.text,))
    assert slide.measured.share in prompt
    assert [f"{c.pace} {c.against}" in prompt for c in slide.measured.comparisons] == [True, True]


def test_a_new_line_of_evidence_reaches_every_writer(
    store: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a contributor adds it: one remark in the module that words this kind of facts."""
    words, errors = "a line that nobody wrote before", failure._errors
    monkeypatch.setattr(failure, "_errors", lambda compared: (Remark(words, Tone.PATTERN), *errors(compared)))
    trial = wrong(store, "a" * 64)
    page, slide = in_report(store, trial)
    assert words in feedback.evidence(trial, KERNEL)
    assert words in in_terminal(trial, capsys)
    assert words in page
    assert slide.evidence is not None
    assert slide.evidence.title == words


@pytest.mark.parametrize("where", ["terminal", "report"])
def test_a_writer_shows_every_shape(store: Store, capsys: pytest.CaptureFixture[str], where: str) -> None:
    """As the mode with roles speaks of them: the geometric mean over all of them is the last row."""
    timing = Timing("candidate", 30.0, 29.0, 31.0, 0.004, 50)
    shapes = [WorkloadPerformance(f"shape {n}", (timing,), (), (), 0.01, CONDITIONS) for n in range(24)]
    trial = timed(store, "a" * 64, Performance(tuple(shapes)))
    text = in_terminal(trial, capsys) if where == "terminal" else in_report(store, trial)[0]
    assert all(f"shape {n}: " in text or f">shape {n}<" in text for n in range(24))
    assert "geometric mean" in text


# ---- the record


def test_a_clipped_section_says_what_it_leaves_out() -> None:
    rows = tuple(Remark(f"row {n}", cells=(str(n),), notes=("one", "two")) for n in range(5))
    section = Section(Topic.FINDINGS, "t", (Remark("first"), *rows), columns=("n",))
    short = section.clipped(2, 1)
    assert [remark.text for remark in short.remarks] == ["first", "row 0", "row 1", "... and 3 more"]
    assert short.rows[0].notes == ("one",)
    shapes = replace(section, topic=Topic.SHAPES)
    assert shapes.clipped(2, 1).rows == tuple(replace(row, notes=("one",)) for row in rows)
    assert [remark.text for remark in section.clipped(5).remarks] == ["first", *(f"row {n}" for n in range(5))]
