"""Say in one line what came of a step: right or wrong, how fast against what, promoted or why not."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.evaluate.evidence.proof import runs_correct
from cutegen_core.evaluate.evidence.speed import TONES, doubt_text, share, strongest, why_untimed
from cutegen_core.evaluate.timing.overall import overall, regressed
from cutegen_core.records.decision import Gate
from cutegen_core.records.event import AnsweredBy, Outcome, Role, SessionState
from cutegen_core.records.evidence import Remark, Tone
from cutegen_core.records.performance import BEST, Word, WorkloadPerformance
from cutegen_core.records.trial import ExecutorKind, Mark, Status
from cutegen_core.records.wording import CAREFUL, counted, listed, lowered, micros, pace_against
from cutegen_core.trajectory.state import WORKING, Phase, State, Step
from cutegen_core.views.session import StepView

_WRONG = {
    Status.INCORRECT_NUMERICAL: "Wrong result",
    Status.COMPILE_ERROR: "Does not compile",
    Status.UNSUPPORTED: "Neither right nor wrong: not supported here",
    Status.SUSPECT: "Suspect",
}
_ASKED = {
    Gate.PROMPT: "Send the prompt?",
    Gate.ANSWER: "Use this answer?",
    Gate.PLAN: "Use this plan?",
    Gate.DIFF: "Compile and test it?",
    Gate.REPLY: "Waiting for a reply",
    Gate.INSTRUCTION: "Waiting for an instruction",
}


def warnings_of(step: Step) -> tuple[str, ...]:
    """Return the warnings about the reply that a step's kernel came from: odd characters, more kernels than one."""
    return tuple(line.removeprefix(CAREFUL) for line in step.plan.splitlines() if line.startswith(CAREFUL))


def outcome_line(state: State, shown: StepView) -> tuple[Remark, ...]:
    """Return the verdict, the speed and what became of the step, each as a remark; the verdict comes first."""
    parts = (_verdict(state, shown), *_speed(state, shown), *_became(state, shown))
    return tuple(part for part in parts if part.text)


# ---- right or wrong


def _verdict(state: State, shown: StepView) -> Remark:
    step, trial = shown.step, shown.trial
    if step.status is None:
        return Remark(_untested(state, step))
    if not step.passed:
        message = step.verdict.message if step.verdict else ""
        told = f": {' '.join(message.split())}" if message else ""
        return Remark(f"{_WRONG.get(step.status, lowered(step.status).capitalize())}{told}", Tone.BAD)
    correctness = trial.correctness if trial else None
    return Remark(runs_correct(correctness) if correctness else "Passed", Tone.GOOD)


def _untested(state: State, step: Step) -> str:
    if step.candidate is None:
        return "No kernel" if step.outcome else "No kernel yet"
    if step is state.open_step and state.phase is Phase.TESTING and state.status in WORKING:
        return "Testing"
    kept = step.with_key(step.candidate)
    said = lowered(kept.tried.status).capitalize() if kept and kept.tried else ""
    return f"{said} as one of {counted(len(step.alternatives), 'candidate')}" if said else "Not tested"


# ---- how fast, against what


def _speed(state: State, shown: StepView) -> Iterator[Remark]:
    trial = shown.trial
    if trial is None or shown.step.status not in (Status.PASSED, Status.SUSPECT):
        return
    timed = overall(trial.performance)
    if timed is None:
        needed = "needs a GPU" if trial.executor is ExecutorKind.CPU else why_untimed(trial)
        yield Remark(f"not measured: {needed}", Tone.ASIDE)
    elif not any(
        doubt_text(trial, workload) for workload in (trial.performance.workloads if trial.performance else ())
    ):
        yield Remark(micros(timed.candidate.median_us))
        yield from _comparisons(timed)


def _comparisons(timed: WorkloadPerformance) -> Iterator[Remark]:
    """Compare with the best kernel of that moment and the strongest baseline, and give the share of the bound."""
    for speedup in dict.fromkeys((timed.speedup(BEST), strongest(timed))):
        if speedup is not None:
            yield Remark(pace_against(speedup), TONES[speedup.word])
    if reached := share(timed):
        yield Remark(reached.words)


# ---- promoted, or why not


def _became(state: State, shown: StepView) -> Iterator[Remark]:
    step = shown.step
    if state.status in WORKING and state.accepting and state.accepting == step.candidate:
        yield Remark("being accepted: tested once more, with fresh inputs")
    elif state.gate and step is state.open_step:
        yield Remark(_asked(state, state.gate.gate, step), Tone.DOUBTFUL)
    elif state.status is SessionState.ACCEPTED and step.candidate and step is state.best_step:
        yield Remark("accepted: passed again with fresh inputs", Tone.GOOD)
    elif step.outcome is Outcome.PROMOTED:
        best = state.best_step
        yield Remark("promoted" if best in (None, step) else f"promoted; the best is now step {best.number}", Tone.GOOD)
    elif step.outcome is Outcome.KEPT:
        yield Remark(f"not promoted: {_why_kept(step)}")
    elif step.outcome not in (None, Outcome.FAILED):
        yield Remark(str(step.outcome) + (f": {step.note}" if step.note else ""))


def _asked(state: State, gate: Gate, step: Step) -> str:
    if gate is not Gate.PROMOTION:
        return _ASKED[gate]
    if not step.passed:
        return f"{way_on(state)}?"
    confirm = step.tried is not None and Mark.CONFIRM in step.tried.marks
    return "Passed. Check it yourself, then promote?" if confirm else "Passed. Promote?"


def way_on(state: State) -> str:
    """Name what follows a kernel that failed, as a button does: its repair, where a model or a person can repair it."""
    coder = state.settings.answers(Role.CODING)
    return "Continue and repair" if coder in (AnsweredBy.LLM, AnsweredBy.PERSON) else "Continue without it"


def _why_kept(step: Step) -> str:
    """Say why a kernel that passed is not the best: its speed against the best, else the note of the step."""
    tried = step.tried
    if tried is None or tried.against_best is None:
        return step.note
    slower = regressed(tried.shapes)
    if slower:
        return f"slower on {listed(shape.workload for shape in slower)}"
    return {Word.SAME: "within noise of the best", Word.SLOWER: "slower than the best"}.get(
        tried.against_best, step.note
    )
