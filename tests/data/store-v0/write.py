"""Write the old store of this folder and what the code of its time says about it. Runs with that code only.

    git worktree add /tmp/old ebe9aa9
    cd /tmp && CUTEGEN_HOME=/tmp/old-home PYTHONPATH=/tmp/old python CLONE/tests/data/store-v0/write.py CLONE/tests/data/store-v0

Commit ebe9aa9 is the last one whose stores carry no schema version. `store.db.gz` holds one session of every kind,
`said.json` what that commit makes of them, `recordings.json` what it makes of the recordings in `assets/recordings`.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import tests
from cutegen_core import problems, reviewer, views
from cutegen_core.ablation import AblationTable
from cutegen_core.candidate import content_key
from cutegen_core.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.event import (
    Decided, ModelCalled, Role, SessionState, StageStarted, StateChanged, StepStarted, TrialStarted, Tried,
)
from cutegen_core.imports import import_path
from cutegen_core.imports.building import ImportedStep, build_session
from cutegen_core.llm import model_settings
from cutegen_core.llm.model_settings import Models, ModelSettings
from cutegen_core.performance import Profile
from cutegen_core.session_state import Step
from cutegen_core.store import Draft, Store
from cutegen_core.trial import Stage, Status, Trial
from cutegen_core.tuning import SweepTable
from cutegen_core.views.reading import trial_of
from tests.core.loop import Loop, loop
from tests.model_server import ModelServer, reply
from tests.pages.gpu_stories import branched_story, gpu_story

OLD = Path(tests.__file__).parents[1]
RELU = (OLD / "tests" / "data" / "relu.cu").read_text()
WRONG = RELU.replace("default = 256", "default = 128").replace("in(i) : 0.0f", "in(i) : 0.5f")
STEP, AUTO = Autonomy.STEP, Autonomy.AUTO


def whole(idea: str, source: str) -> str:
    return f"Idea: {idea}\n```cpp\n{source}```\n"


# ---- sessions, by name


def person(desk: Loop) -> str:
    """All that a person decides: approvals, a redirect, a rejection, an edit, hunks apart, a rewind, a branch, a sweep."""
    session = desk.start("relu")
    desk.go(session)
    desk.approve(session)
    first = desk.approve(session).best
    desk.decide(session, DecisionKind.REDIRECT, text="use 512 threads")
    desk.decide(session, DecisionKind.REJECT, text="too plain")
    desk.decide(session, DecisionKind.EDIT, source=RELU, text="by hand: one element a thread", candidate=first)
    desk.decide(session, DecisionKind.EDIT, source=WRONG, candidate=desk.store.put(RELU))
    desk.decide(session, DecisionKind.ABLATE, candidate=desk.store.put(WRONG))
    desk.store.submit(session, Decision(DecisionKind.PROFILE, candidate=first))  # refused: there is no GPU
    desk.decide(session, DecisionKind.STANDING, text="keep the kernel short")
    desk.decide(session, DecisionKind.MEMORY, step=2, text="512 threads were not tried")
    desk.decide(session, DecisionKind.REWIND, step=1)
    desk.decide(session, DecisionKind.BRANCH, step=4)
    desk.decide(session, DecisionKind.REDIRECT, text="sweep")
    desk.approve(session)
    desk.approve(session)
    desk.decide(session, DecisionKind.BUDGET, max_steps=50)
    desk.decide(session, DecisionKind.REDIRECT, text="paint it blue")
    return session


def auto(desk: Loop) -> str:
    """Accepted by the policy."""
    session = desk.start("softmax", autonomy=AUTO)
    assert desk.go(session).status is SessionState.ACCEPTED
    return session


def cached(desk: Loop) -> str:
    """Its first verdict comes from the cache."""
    session = desk.start("relu")
    desk.go(session)
    assert trial_of(desk.store, desk.approve(session).step.tried.trial).cached
    return session


def inbox(desk: Loop) -> str:
    """Waits at its first gate; an approval nobody has looked at, and a draft."""
    session = desk.start("gelu")
    gate = desk.go(session).gate
    seen = views.session_view(desk.store, session).state.seq
    desk.store.submit(session, Decision(DecisionKind.APPROVE, seen, gate=gate.gate, candidate=gate.candidate))
    desk.store.save_draft(session, Draft(gate.candidate, desk.store.text(gate.candidate) + "// half a tho"))
    return session


def manual(desk: Loop) -> str:
    """A person carries the prompts: a reply without a kernel, then the repair's prompt waits."""
    session = desk.start("relu", proposer="manual", gates=())
    desk.go(session)
    state = desk.decide(session, DecisionKind.REPLY, text="I am sorry, I cannot do that.")
    assert state.gate.gate is Gate.REPLY
    return session


def carried(desk: Loop) -> str:
    """A person carries the prompts: a kernel that passes, then the next prompt waits."""
    session = desk.start("relu", proposer="manual", gates=(Gate.DIFF,))
    desk.go(session)
    desk.decide(session, DecisionKind.REPLY, text=whole("seed: one thread an element", RELU))
    desk.approve(session)
    return session


def replayed(desk: Loop, recording: str) -> str:
    session = desk.start("softmax", proposer="replay", autonomy=AUTO, max_steps=1000, recording=recording)
    assert desk.go(session).status is SessionState.ACCEPTED
    return session


def model(desk: Loop) -> str:
    """A model that fails in several ways, and ends accepted."""
    script = (
        whole("seed: plain", RELU.replace("using namespace cute;", "")),
        "Cause: the namespace is not opened\nEvidence: make_tensor\nFix: open it",
        "<<<<<<< SEARCH\nnowhere\n=======\nelse\n>>>>>>> REPLACE\n",
        "Cause: the same\nEvidence: the same\nFix: open it",
        "<<<<<<< SEARCH\n#include <cute/tensor.hpp>\n=======\n"
        "#include <cute/tensor.hpp>\nusing namespace cute;\n>>>>>>> REPLACE\n",
        "I am not sure what to do.",
        "DONE: enough",
    )
    with ModelServer(*(reply(text, size=500) for text in script)) as server:
        model_settings.write(Models((ModelSettings("test", server.base_url, "test-model", context_tokens=100_000),)))
        session = desk.start("relu", proposer="llm", autonomy=AUTO, max_tokens=400_000)
        assert desk.go(session).status is SessionState.ACCEPTED
    return session


def interrupted(desk: Loop) -> str:
    """The prompt was changed by the person, and the model's server was not there."""
    settings = ModelSettings("gone", "http://127.0.0.1:9/v1", "test-model", context_tokens=100_000, retries=0)
    model_settings.write(Models((settings,)))
    session = desk.start("relu", proposer="llm", model="gone", gates=(Gate.PROMPT, Gate.DIFF))
    gate = desk.go(session).gate
    edited = desk.store.text(gate.prompt) + "\nUse 128 threads."
    state = desk.decide(session, DecisionKind.APPROVE, gate=Gate.PROMPT, text=edited)
    assert state.status is SessionState.INTERRUPTED
    return session


def lost(desk: Loop) -> str:
    """Killed while the model answered, and stopped by the person; what came of the call is unknown."""
    session = desk.start("relu", proposer="llm", autonomy=AUTO)
    prompt = desk.store.put("Write a kernel.")
    stop = Decision(DecisionKind.STOP, 4)
    desk.store.append(
        session,
        [StepStarted(1, None), StageStarted(1, Stage.GENERATE), ModelCalled(1, Role.PROPOSER, prompt, "m", 9000),
         Decided(stop), StateChanged(SessionState.STOPPED, "stopped by the person")],
        after=1,
    )
    return session


def exhausted(desk: Loop) -> str:
    session = desk.start("relu", autonomy=AUTO, max_steps=1)
    assert desk.go(session).status is SessionState.EXHAUSTED
    return session


def stopped(desk: Loop) -> str:
    session = desk.start("relu", autonomy=Autonomy.UNTIL_FAILURE)
    desk.decide(session, DecisionKind.STOP)
    return session


def refuted(desk: Loop, judged: str) -> str:
    """The best kernel failed its acceptance test: as the engine writes it, with the trial of a wrong kernel."""
    session = desk.start("relu")
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    failed = next(s.tried for s in desk.go(judged).steps if s.candidate == desk.store.put(WRONG))
    best = state.best
    assert best is not None
    trial = replace(trial_of(desk.store, failed.trial), candidate=best)
    accept = Decision(DecisionKind.ACCEPT, state.seq, candidate=best)
    number = len(state.steps)
    desk.store.append(
        session,
        [*reviewer.consequences(state, accept, desk.store.put), TrialStarted(number, best, acceptance=True),
         Tried(number, best, desk.store.put_record(trial), trial.status, trial.message, acceptance=True),
         StateChanged(SessionState.AWAITING_REVIEW, f"the acceptance test failed: {trial.message}")],
        after=state.seq,
    )
    return session


def accepting(desk: Loop) -> str:
    """Killed in the middle of the acceptance test."""
    session = desk.start("relu")
    desk.go(session)
    desk.approve(session)
    state = desk.approve(session)
    accept = Decision(DecisionKind.ACCEPT, state.seq, candidate=state.best)
    decided = reviewer.consequences(state, accept, desk.store.put)
    desk.store.append(session, [*decided, TrialStarted(2, state.best, acceptance=True)], after=state.seq)
    return session


def wanted(desk: Loop) -> str:
    """Killed before the hunks that the person asked about were tried apart."""
    session = desk.start("relu")
    desk.go(session)
    desk.approve(session)
    best = desk.approve(session).best
    state = desk.decide(session, DecisionKind.EDIT, source=RELU, candidate=best)
    ablate = Decision(DecisionKind.ABLATE, candidate=desk.store.put(RELU))
    desk.store.append(session, reviewer.consequences(state, ablate, desk.store.put), after=state.seq)
    return session


def imported(desk: Loop) -> str:
    """Results of another program, without their evidence."""
    steps = (
        ImportedStep(RELU, "seed", Status.PASSED, latency_ms=0.2, record="{}", at=1.7e9),
        ImportedStep(WRONG, "128 threads", Status.INCORRECT_NUMERICAL, parent=RELU, message="wrong", at=1.7e9 + 60),
        ImportedStep("", "nothing", None, note="no source in the file", at=1.7e9 + 120),
    )
    return build_session(desk.store, problems.load("relu"), "imported from nodes/ (upstream CuTeGen)", "relu", steps)


def written(folder: Path) -> tuple[Path, dict[str, str]]:
    """The store, and its sessions by name."""
    with loop(folder) as desk:
        sessions = {"person": person(desk), "auto": auto(desk)}
        sessions["replayed"] = replayed(desk, sessions["auto"])
        sessions["refuted"] = refuted(desk, sessions["person"])
        for make in (cached, inbox, manual, carried, model, interrupted, lost, exhausted, stopped, accepting, wanted, imported):
            sessions[make.__name__] = make(desk)
        sessions["gpu"] = gpu_story(desk.store).session
        sessions["branched"] = branched_story(desk.store).session
        return desk.store.path, sessions


# ---- what this code says of them


def said(store: Store, session: str) -> dict[str, object]:
    state = views.session_view(store, session).state
    settings, best = state.settings, state.best_step
    return {
        "problem": settings.problem_name,
        "title": settings.title,
        "proposer": settings.proposer,
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
        "wanted": [state.profile_wanted, state.ablation_wanted],
        "acceptance": _verdict(store, state.acceptance),
        "lost_call": state.lost_call,
        "profiles": {key: _profile(store, p.profile) or p.message for key, p in state.profiles.items()},
        "ablations": {key: _ablation(store, a.rows) or a.message for key, a in state.ablations.items()},
        "waiting": [[str(w.decision.kind), w.decision.candidate] for w in store.waiting(session)],
        "draft": list(store.draft(session) or ()),
        "steps": [_step(store, session, step) for step in state.steps],
    }


def _step(store: Store, session: str, step: Step) -> dict[str, object]:
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
        "calls": [
            [str(c.role), c.model, content_key(c.prompt), None if c.reply is None else content_key(c.reply),
             [c.answer.finish, c.answer.error, c.answer.prompt_tokens, c.answer.completion_tokens] if c.answer else None]
            for c in view.calls
        ],
        "stages": [[str(r.stage), str(r.status), r.note] for r in step.stages],
        "sweep": _sweep(store, step.sweep),
        "verdict": _verdict(store, step.tried),
    }


def _verdict(store: Store, tried: Tried | None) -> dict[str, object] | None:
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
        "marks": list(tried.marks),
        "cached": trial.cached if trial else False,
        "runs": _runs(trial) if trial else [],
        "diagnostics": [[d.line, d.severity, d.tool, d.message] for d in trial.diagnostics] if trial else [],
        "speedups": _speedups(trial) if trial else [],
    }


def _runs(trial: Trial) -> list[object]:
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    return [[v.workload, v.mode, v.seed, str(v.status), [c.wrong for c in v.comparisons], [f.kind for f in v.findings]]
            for v in verdicts]  # fmt: skip


def _speedups(trial: Trial) -> list[object]:
    workloads = trial.performance.workloads if trial.performance else ()
    return [
        [w.workload, w.candidate.median_us, [[s.baseline, s.ratio, str(s.word)] for s in w.speedups]] for w in workloads
    ]


def _profile(store: Store, key: str) -> list[object]:
    found = store.record(Profile, key) if key else None
    return [[k.kernel, [[m.name, m.value, m.unit] for m in k.metrics]] for k in found.kernels] if found else []


def _ablation(store: Store, key: str) -> list[object]:
    found = store.record(AblationTable, key) if key else None
    return [list(found.titles), [[list(r.kept), str(r.spent.status)] for r in found.rows]] if found else []


def _sweep(store: Store, key: str) -> list[object]:
    found = store.record(SweepTable, key) if key else None
    rows = [[dict(r.params), str(r.status)] for r in found.rows] if found else []
    return [found.chosen, found.left_out, found.decided_by, rows] if found else []


def recordings() -> dict[str, object]:
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store.db")
        for path in sorted((OLD / "assets" / "recordings").iterdir()):
            found[path.name] = said(store, import_path(store, path).session)
        store.close()
    return found


def main() -> None:
    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        path, sessions = written(Path(folder))
        store = Store(path)
        told = {name: {"id": session, **said(store, session)} for name, session in sessions.items()}
        store.close()
        with sqlite3.connect(path) as raw:
            raw.execute("DELETE FROM blobs WHERE substr(data, 1, 4) = X'7F454C46'")  # cubins: nine tenths of the size
            raw.commit()
            raw.execute("PRAGMA journal_mode = DELETE")
            raw.execute("VACUUM")
            assert raw.execute("PRAGMA user_version").fetchone() == (0,)
        with path.open("rb") as plain, gzip.GzipFile(out / "store.db.gz", "wb", mtime=0) as packed:
            shutil.copyfileobj(plain, packed)
    for name, value in (("said.json", told), ("recordings.json", recordings())):
        (out / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
