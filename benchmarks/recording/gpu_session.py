"""Records a session with real times for assets/recordings: `python -m benchmarks.recording.gpu_session`, on a GPU.

1. The playbook proposes a softmax, naive, then better, then in registers; a script stands in for the person at every
   gate, and promotes what was measured to be faster.
2. The person edits the best kernel by hand: exponentials are kept instead of computed twice, and multiplied by one
   reciprocal instead of divided one by one.
3. The person redirects; what was asked for is measured, found slower, and turned down.
4. The person asks for a sweep of the parameters, for a profile of the best, and accepts it.
`--executor cpu` plays the same script on the emulator, where nothing is timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.recording.session import Person
from cutegen_core.problems import library
from cutegen_core.records.decision import DecisionKind, Gate, StudyKind
from cutegen_core.records.event import AnsweredBy, SessionCreated
from cutegen_core.records.performance import BEST, EAGER, Word
from cutegen_core.records.trial import Trial
from cutegen_core.session import start
from cutegen_core.share.exports import export
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

OUTPUT = Path(__file__).parents[2] / "assets" / "recordings" / "softmax-h200.jsonl.gz"
EDITS = (
    (
        "        float const t3 = expf(t2);\n        sum4_so_far = Sum{}(sum4_so_far, t3);\n      }\n    }\n  }",
        "        float const t3 = expf(t2);\n        rX(v, item) = t3;\n"
        "        sum4_so_far = Sum{}(sum4_so_far, t3);\n      }\n    }\n  }",
    ),
    (
        "float(0), Sum{});\n  CUTE_UNROLL\n",
        "float(0), Sum{});\n  float const inverse = 1.0f / sum4;\n  CUTE_UNROLL\n",
    ),
    (
        "        float const x_value = static_cast<float>(rX(v, item));\n        float const t2 = x_value - max1;\n"
        "        float const t3 = expf(t2);\n        float const t5 = t3 / sum4;\n"
        "        rOut(v, item) = static_cast<float>(t5);\n",
        "        rOut(v, item) = rX(v, item) * inverse;\n",
    ),
)
"""What the person changes in the playbook's register kernel."""
REDIRECT = "try 128 threads a block"


def record(folder: Path, output: Path, executor: str) -> tuple[Store, State]:
    """Record into a store of its own under `folder` and write the recording to `output`."""
    store = Store(folder / "store.db")
    tools = Tools(store)
    try:
        tools.warm(lambda line: print(line, flush=True))  # a GPU's peaks, too: without them there is no roofline
        session = _create(store, executor)
        state = _Script(store, Person(store, tools, session), executor).play()
        output.parent.mkdir(parents=True, exist_ok=True)
        export(store, session, "jsonl", output)
        return store, state
    finally:
        tools.close()


def _create(store: Store, executor: str) -> str:
    draft = start.create(store, library.load("softmax"), answered_by=AnsweredBy.PLAYBOOK, executor=executor)
    created = store.events(draft)[0].event
    assert isinstance(created, SessionCreated)
    name = created.settings.device_name if executor == "gpu" else "the CPU emulator"
    return store.create_session(SessionCreated(replace(created.settings, title=f"Softmax, recorded on {name}")))


class _Script:
    """What the person does, in order; every choice rests on what the page would show."""

    def __init__(self, store: Store, person: Person, executor: str) -> None:
        self._store, self._person, self._timed = store, person, executor == "gpu"
        self._begun = time.monotonic()

    def play(self) -> State:
        self._person.looks()
        for _ in range(3):
            state = self._try()
        state = self._edit(state)
        state = self._redirect(REDIRECT)
        state = self._redirect("sweep the parameters")
        assert state.best
        if self._timed:
            state = self._person.decides(DecisionKind.STUDY, study=StudyKind.PROFILE, candidate=state.best)
            self._say("profiled")
        return self._person.decides(DecisionKind.ACCEPT, candidate=state.best)

    def _try(self) -> State:
        """Approve what is proposed, then promote or reject it as it was measured."""
        state = self._person.looks()
        if state.gate and state.gate.gate is Gate.DIFF:
            state = self._person.approves()
        trial = self._latest(state)
        self._say(f"step {len(state.steps)}: {self._told(trial)}")
        if self._worse(trial):
            return self._person.decides(DecisionKind.REJECT, text="slower than what we have: keep the best")
        return self._person.approves()

    def _edit(self, state: State) -> State:
        assert state.best
        source = self._store.text(state.best)
        for before, after in EDITS:
            if source.count(before) < 1:
                raise SystemExit(f"the playbook's kernel has changed: it no longer holds\n{before}")
            source = source.replace(before, after, 1)
        self._person.decides(DecisionKind.EDIT, source=source, candidate=state.best)
        return self._try()

    def _redirect(self, text: str) -> State:
        self._person.decides(DecisionKind.REDIRECT, text=text)
        return self._try()

    def _latest(self, state: State) -> Trial:
        step = state.steps[-1]
        assert step.tried is not None, step
        return self._store.record(Trial, step.tried.trial)

    def _worse(self, trial: Trial) -> bool:
        measured = trial.performance.workloads[0] if trial.performance and trial.performance.workloads else None
        against = measured.speedup(BEST) if measured else None
        return not trial.passed or (against is not None and against.word is Word.SLOWER)

    def _told(self, trial: Trial) -> str:
        if not trial.performance or not trial.performance.workloads:
            return f"{trial.status} {trial.message}"
        measured = trial.performance.workloads[0]
        words = [f"{s.ratio:.2f} x {s.baseline} {s.word}" for s in measured.speedups if s.baseline in (BEST, EAGER)]
        return f"{trial.status} {measured.candidate.median_us:.1f} us; {', '.join(words)}"

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:6.1f} s  {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--executor", choices=("gpu", "cpu"), default="gpu")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cutegen-record-") as folder:
        store, state = record(Path(folder), chosen.output, chosen.executor)
        for step in state.steps:
            print(f"step {step.number}: {step.idea}: {step.status} {step.outcome}")
        store.close()
    print(f"{state.status} {state.reason}: {chosen.output} ({chosen.output.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
