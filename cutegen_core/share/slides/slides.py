"""Collect what each stop shows from the store: words, numbers and pictures, no HTML from elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cutegen_core import views
from cutegen_core.evaluate.evidence import speed
from cutegen_core.evaluate.timing.overall import overall, regressed, shape_times
from cutegen_core.records.event import Outcome
from cutegen_core.records.performance import BEST, EXISTING, Conditions, Word, WorkloadPerformance
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind, Trial
from cutegen_core.records.wording import counted, factor_words, interval, listed, lowered, micros, pace, pace_against
from cutegen_core.share.slides import charts, code, proof
from cutegen_core.share.slides.code import Code
from cutegen_core.share.slides.deck import GOES_ON, START, Deck, Stop
from cutegen_core.share.slides.evidence import KeyEvidence, key_evidence
from cutegen_core.share.slides.step_words import author, became
from cutegen_core.share.slides.svg import Picture
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views import SessionView, StepView


class Fact(NamedTuple):
    """A name and its text."""

    name: str
    text: str


class SpeedComparison(NamedTuple):
    """A comparison: "1.12x faster", "than torch.compile", "speedup 1.122x, 95 % interval ...", and its word."""

    pace: str
    against: str
    interval: str
    word: Word


class MeasuredSpeed(NamedTuple):
    """The speed of a kernel.

    Attributes:
        took: "" where nothing was measured; then `note` says why.
        doubt: why the time is no result, "" where it is believed.
        share: of the bound, "" where nothing was counted.
        shapes: a line for each of several workloads, which `took` is the geometric mean of.
    """

    took: str
    note: str
    comparisons: tuple[SpeedComparison, ...] = ()
    share: str = ""
    doubt: str = ""
    bars: Picture | None = None
    shapes: tuple[str, ...] = ()


class OpeningSlide(NamedTuple):
    stop: Stop
    title: str
    subtitle: str
    facts: tuple[Fact, ...]
    reference: Code


class StepSlide(NamedTuple):
    """A step.

    Attributes:
        change, kernel: None while no kernel was proposed.
        said: what a person asked for before the step and said after it.
    """

    stop: Stop
    idea: str
    author: str
    became: str
    message: str
    change: Code | None
    kernel: Code | None
    measured: MeasuredSpeed
    evidence: KeyEvidence | None
    said: tuple[Fact, ...]
    progress: Picture | None


class ResultSlide(NamedTuple):
    """The result of the session; `kernel` is None if no kernel passed."""

    stop: Stop
    title: str
    subtitle: str
    measured: MeasuredSpeed
    beside_first: str
    proof: tuple[str, ...]
    kernel: Code | None
    progress: Picture | None


Slide = OpeningSlide | StepSlide | ResultSlide


def slide(store: Store, deck: Deck, stop: Stop) -> Slide:
    """Return everything that one stop shows."""
    if stop.number:
        return _step(store, deck.view, stop, views.step_view(store, deck.view.id, stop.number))
    return _opening(store, deck, stop) if stop.name == START else _result(store, deck, stop)


# ---- the beginning


def _opening(store: Store, deck: Deck, stop: Stop) -> OpeningSlide:
    state, problem = deck.view.state, deck.view.problem
    settings = state.settings
    on_gpu = settings.executor is ExecutorKind.GPU
    where = "on a GPU" if on_gpu else "on the CPU emulator, which tests kernels but cannot time them"
    device = f": {settings.device_name}" if settings.device_name else ""
    proposer = f"{settings.answered_by}: {settings.model}" if settings.model else settings.answered_by
    with_kernel = sum(1 for s in deck.stops if s.number)
    facts = [
        Fact("runs", f"{where}{device if on_gpu else ''}"),
        Fact("compiled for", f"{settings.arch}{'' if on_gpu else device}"),
        Fact("proposed by", proposer),
        Fact("existing kernel", counted(len(problem.existing.splitlines()), "line") if problem.existing else ""),
        Fact("tolerance", _tolerance(problem)),
        Fact("workloads", listed(w.name for w in problem.workloads)),
        Fact("steps", _steps(len(state.steps), with_kernel)),
        Fact("begun", time.strftime("%d %b %Y, %H:%M UTC", time.gmtime(state.created_at))),
        *_conditions(store, state),
    ]
    if state.standing:
        facts.append(Fact("held for every step", state.standing))
    if settings.imported:
        facts.append(Fact("origin", settings.origin))
    title = settings.title or problem.title or settings.problem_name
    about = f"{settings.problem_name}, from a PyTorch reference to a proven CuTe kernel"
    return OpeningSlide(stop, title, about, tuple(f for f in facts if f.text),
                        code.whole(problem.source, "The reference", "python"))  # fmt: skip


def _steps(all_of_them: int, shown: int) -> str:
    return f"{all_of_them}" if all_of_them == shown else f"{all_of_them}, {shown} of them with something to show"


def _tolerance(problem: Problem) -> str:
    """Return how much an element may differ: by dtype, by output, and by workload where one has its own."""
    stated = [*problem.tolerance.items()]
    stated += [(f"{key} on {w.name}", t) for w in problem.workloads for key, t in w.tolerance.items()]
    within = (f"{key}: atol {t.atol:g}, rtol {t.rtol:g}" for key, t in stated)
    return f"against float64, {'; '.join(within)}"


def _conditions(store: Store, state: State) -> list[Fact]:
    """Return under which conditions the first timed step was measured."""
    measured = (views.performance_of(store, step) for step in state.steps)
    first = next((p.workloads for p in measured if p and p.workloads), ())
    rows = speed.condition_remarks(_over_all([w.conditions for w in first])) if first else ()
    shown = {"SM clock": "clocks", "between samples": "between samples", "other programs on the GPU": "other programs"}
    return [Fact(shown[name], text) for name, text in (row.cells for row in rows) if name in shown]


def _over_all(found: Sequence[Conditions]) -> Conditions:
    """Return the conditions of several workloads as one: the widest ranges, and all that disturbed."""
    clocks = [clock for one in found for clock in one.sm_clock_mhz]
    return replace(
        found[0],
        sm_clock_mhz=(min(clocks), max(clocks)),
        throttled=tuple(dict.fromkeys(reason for one in found for reason in one.throttled)),
        other_processes=max(one.other_processes for one in found),
    )


# ---- a step


def _step(store: Store, view: SessionView, stop: Stop, shown: StepView) -> StepSlide:
    step, trial, state = shown.step, shown.trial, view.state
    says = code.said_of_lines(trial)
    profile = views.profile_view(store, state, step).profile
    return StepSlide(
        stop,
        step.idea or step.instruction or ("no idea was written down" if step.outcome else "no kernel yet"),
        author(step, state.settings),
        became(step),
        "" if trial and trial.passed else (trial.message if trial else "") or _note(step) or _missing(step, state),
        _change(state, shown, says),
        code.whole(shown.source, "The whole kernel", says=says) if shown.source else None,
        measured(trial, state),
        key_evidence(views.step_evidence(store, state, shown), trial, profile, shown.source),
        _said(step),
        charts.progress(view.steps, views.speed_rows(store, state), stop.number),
    )


def _note(step: Step) -> str:
    return step.verdict.message if step.verdict else step.note


def _missing(step: Step, state: State) -> str:
    """Say why a step has no kernel, "" where it has one."""
    if step.candidate:
        return ""
    if step.outcome:
        return "This step ended without a kernel."
    if state.status in GOES_ON:
        return "The kernel appears here as soon as it is proposed."
    return f"The session is {lowered(state.status)}."


def _change(state: State, shown: StepView, says: code.Says) -> Code | None:
    """Return the change against the kernel this one was made from, which need not be the one of the step before."""
    if not shown.source:
        return None
    step = shown.step
    parent = step.parent or step.base
    made_from = next((s for s in reversed(state.steps[: step.number - 1]) if s.candidate == parent), None)
    if not shown.base_source or made_from is None:
        return code.without_plan(shown.source, "Written from scratch", says)
    return code.change(shown.base_source, shown.source, f"step {made_from.number}", says)


def _said(step: Step) -> tuple[Fact, ...]:
    """Return a person's words before and after."""
    after = {Outcome.REDIRECTED: "then said", Outcome.REJECTED: "rejected, because"}
    found = [Fact("asked for", step.instruction)] if step.instruction else []
    if step.outcome in after and step.note:
        found.append(Fact(after[step.outcome], step.note))
    return tuple(found)


def measured(trial: Trial | None, state: State) -> MeasuredSpeed:
    """Describe the time, of several workloads their geometric means; without one, say why there is none."""
    workload = overall(trial.performance) if trial else None
    if trial is None or workload is None:
        return MeasuredSpeed("", _unmeasured(trial, state))
    doubt = speed.doubt_text(trial, workload)
    took = micros(workload.candidate.median_us)
    where = f"{'' if trial.performance and len(trial.performance.workloads) > 1 else 'workload '}{workload.workload}"
    note = f"{speed.took_text(workload).removeprefix(took).lstrip(', ')}, {where}"
    return MeasuredSpeed(
        took, note, () if doubt else _comparisons(workload), "" if doubt else speed.reached_text(workload), doubt,
        charts.contenders(workload, believed=not doubt), () if doubt else _per_shape(trial),
    )  # fmt: skip


def _per_shape(trial: Trial) -> tuple[str, ...]:
    """Return a line for each of several workloads, and on which of them the kernel is slower than the best."""
    shapes = shape_times(trial.performance)
    slower = listed(shape.workload for shape in regressed(shapes))
    workloads = trial.performance.workloads if shapes and trial.performance else ()
    return (*map(_shape_line, workloads), *([f"regressed on {slower}"] if slower else []))


def _shape_line(workload: WorkloadPerformance) -> str:
    best, reached = workload.speedup(BEST), speed.share(workload)
    parts = (micros(workload.candidate.median_us), pace_against(best) if best else "", reached.words if reached else "")
    return f"{workload.workload}: {', '.join(part for part in parts if part)}"


def _unmeasured(trial: Trial | None, state: State) -> str:
    emulated = state.settings.executor is not ExecutorKind.GPU
    if trial is None:
        return "not tested"
    return speed.untimed_text(trial) if emulated or trial.passed else "not measured"


def _comparisons(workload: WorkloadPerformance) -> tuple[SpeedComparison, ...]:
    """Compare with the strongest baseline, the existing kernel, and the best kernel of that moment."""
    wanted = (speed.strongest(workload), workload.speedup(EXISTING), workload.speedup(BEST))
    found = dict.fromkeys(s for s in wanted if s)
    return tuple(
        SpeedComparison(pace(s), pace_against(s).removeprefix(pace(s)).strip(),
                        f"95 % interval of the speedup {interval(s)}", s.word)
        for s in found
    )  # fmt: skip


# ---- the end


def _result(store: Store, deck: Deck, stop: Stop) -> ResultSlide:
    state = deck.view.state
    step = state.best_step
    said = f"{lowered(state.status)}{f': {state.reason}' if state.reason else ''}"
    if step is None:
        return ResultSlide(stop, "No kernel has passed", said, MeasuredSpeed("", ""), "", (), None, None)
    shown = views.step_view(store, deck.view.id, step.number)
    speeds = views.speed_rows(store, state)
    first, best = next(iter(speeds), None), next((s for s in speeds if s.step == step.number), None)
    gained = ""
    if first and best and first.step != best.step:
        gained = f"vs the first kernel ({micros(first.latency_us)}): {factor_words(first.latency_us / best.latency_us)}"
    return ResultSlide(
        stop, f"Step {step.number}: {step.idea}", f"{said} · {counted(len(state.steps), 'step')}",
        measured(shown.trial, state), gained,
        proof.lines(shown.trial, views.acceptance_trial(store, state)),
        code.without_plan(shown.source, "The kernel"),
        charts.progress(deck.view.steps, speeds, deck.view.steps[-1].number),
    )  # fmt: skip
