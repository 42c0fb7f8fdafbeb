"""What today's code says about a session, in the words that `tests/data/store-v0/write.py` used with the old code.

Old and new code name things differently; the words here are the old ones, so that what was written then can be
compared: who proposes, verdicts, outcomes, notes, the best, what waits. A renaming changes this module, not the data.
"""

from __future__ import annotations

from typing import Any

from cutegen_core import views
from cutegen_core.evaluate.ablation import AblationTable
from cutegen_core.evaluate.sweep import SweepTable
from cutegen_core.records.candidate import content_key
from cutegen_core.records.decision import Decision, StudyKind
from cutegen_core.records.event import SessionSettings, Tried
from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Trial
from cutegen_core.trajectory.read import trial_of
from cutegen_core.trajectory.state import State, Step
from cutegen_core.trajectory.store import Store
from cutegen_core.views.session import CallView


def said(store: Store, session: str) -> dict[str, Any]:
    state = views.session_view(store, session).state
    settings, best = state.settings, state.best_step
    return {
        "problem": settings.problem_name,
        "title": settings.title,
        "proposer": proposer(settings),
        "model": settings.model,
        "recording": settings.recording,
        "executor": settings.executor,
        "arch": settings.arch,
        "device": settings.device_name,
        "origin": settings.origin,
        "gates": [str(gate) for gate in settings.gates],
        "events": state.seq,
        "status": str(state.status),
        "reason": state.reason,
        "phase": str(state.phase),
        "autonomy": str(state.autonomy),
        "max_steps": state.max_steps,
        "max_tokens": state.max_tokens,
        "tokens": state.tokens,
        "standing": state.standing,
        "best": state.best,
        "best_step": best.number if best else None,
        "promoted": [[p.step, p.candidate] for p in state.promoted],
        "base": state.base,
        "branched": state.branched,
        "gate": [str(state.gate.gate), state.gate.candidate, state.gate.note] if state.gate else None,
        "prompt": store.text(state.gate.prompt) if state.gate and state.gate.prompt else state.prompt,
        "pending_edit": [state.pending_edit, state.pending_idea],
        "accepting": state.accepting,
        "acceptance": _verdict(store, state.acceptance),
        "lost_call": state.lost_call,
        "waiting": [[_old_kind(w.decision), w.decision.candidate] for w in store.waiting(session)],
        "draft": list(next(iter(store.edits(session)), ())),
        "steps": [_step(store, session, step) for step in state.steps],
        **_looks(store, state),
    }


def proposer(settings: SessionSettings) -> str:
    """Return who writes the candidates, in the one word that old settings had for it."""
    return {"person": "manual", "recording": "replay"}.get(settings.answered_by, str(settings.answered_by))


def _old_kind(decision: Decision) -> str:
    return {StudyKind.PROFILE: "profile", StudyKind.ABLATION: "ablate"}.get(decision.study, str(decision.kind))


def _looks(store: Store, state: State) -> dict[str, Any]:
    """Return the looks at a kernel that the person wants, and what the ones before found."""
    return {
        "wanted": [_wanted(state, StudyKind.PROFILE), _wanted(state, StudyKind.ABLATION)],
        "profiles": {
            of: _profile(store, p.result) or p.message
            for (kind, of), p in state.studies.items()
            if kind is StudyKind.PROFILE
        },
        "ablations": {
            of: _ablation(store, a.result) or a.message
            for (kind, of), a in state.studies.items()
            if kind is StudyKind.ABLATION
        },
    }


def _wanted(state: State, study: StudyKind) -> str | None:
    return next((wanted.candidate for wanted in state.studies_wanted if wanted.study is study), None)


def _step(store: Store, session: str, step: Step) -> dict[str, Any]:
    view = views.step_view(store, session, step.number)
    return {
        "number": step.number,
        "base": step.base,
        "parent": step.parent,
        "candidate": step.candidate,
        "author": str(step.author) if step.author else None,
        "idea": step.idea,
        "plan": step.plan,
        "instruction": step.instruction,
        "repair": step.repair,
        "memory": step.memory,
        "outcome": str(step.outcome) if step.outcome else None,
        "note": step.note,
        "status": str(step.status) if step.status else None,
        "refuted": step.refuted is not None,
        "calls": [_call(call) for call in view.calls],
        "stages": [[str(r.stage), str(r.status), r.note] for r in step.stages],
        "sweep": _sweep(store, step.sweep),
        "verdict": _verdict(store, step.tried),
    }


def _call(call: CallView) -> list[Any]:
    answer, reply = call.answer, None if call.reply is None else content_key(call.reply)
    used = [answer.finish, answer.error, answer.prompt_tokens, answer.completion_tokens] if answer else None
    return [str(call.role), call.model, content_key(call.prompt), reply, used]


def _verdict(store: Store, tried: Tried | None) -> dict[str, Any] | None:
    if tried is None:
        return None
    trial = trial_of(store, tried.trial) if tried.trial else None
    return {
        "status": str(tried.status),
        "message": tried.message,
        "registers": tried.registers,
        "spill_bytes": tried.spill_bytes,
        "smem_bytes": tried.smem_bytes,
        "latency_ms": tried.latency_ms,
        "against_best": str(tried.against_best) if tried.against_best else None,
        "marks": [str(mark) for mark in tried.marks],
        "cached": trial.cached if trial else False,
        "runs": _runs(trial) if trial else [],
        "diagnostics": [[d.line, d.severity, d.tool, d.message] for d in trial.diagnostics] if trial else [],
        "speedups": _speedups(trial) if trial else [],
    }


def _runs(trial: Trial) -> list[Any]:
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    return [[v.workload, v.mode, v.seed, str(v.status), [c.wrong for c in v.comparisons], [f.kind for f in v.findings]]
            for v in verdicts]  # fmt: skip


def _speedups(trial: Trial) -> list[Any]:
    workloads = trial.performance.workloads if trial.performance else ()
    return [
        [w.workload, w.candidate.median_us, [[s.baseline, s.ratio, str(s.word)] for s in w.speedups]] for w in workloads
    ]


def _profile(store: Store, key: str) -> list[Any]:
    found = store.record(Profile, key) if key else None
    return [[k.kernel, [[m.name, m.value, m.unit] for m in k.metrics]] for k in found.kernels] if found else []


def _ablation(store: Store, key: str) -> list[Any]:
    found = store.record(AblationTable, key) if key else None
    return [list(found.titles), [[list(r.kept), str(r.spent.status)] for r in found.rows]] if found else []


def _sweep(store: Store, key: str) -> list[Any]:
    found = store.record(SweepTable, key) if key else None
    rows = [[dict(r.params), str(r.status)] for r in found.rows] if found else []
    return [found.chosen, found.left_out, found.decided_by, rows] if found else []
