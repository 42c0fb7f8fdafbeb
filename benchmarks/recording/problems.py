"""Record a session of the playbook on each of several problems.

    python -m benchmarks.recording.problems softmax matmul_square bf16_gemm --seconds 70 --out assets/recordings

A problem is a built-in one, one of `benchmarks/recording/recorded`, or a file; without any, all of that folder and
softmax, layernorm and matmul_square. A session goes on by itself until the playbook has no more, or until `--seconds`
have passed; then its best kernel is accepted, and profiled where a profiler is there. A recording is written as
PROBLEM-WHERE.jsonl.gz after each problem; one that is larger than `--most-kb` is not kept. `docs.recording_pictures`
draws the pictures. `--executor cpu` plays the same on the emulator, where nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.recording.session import Person
from cutegen_core.evaluate.timing.overall import overall
from cutegen_core.problems import library
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, StudyKind
from cutegen_core.records.event import AnsweredBy, SessionCreated, SessionState, StageEnded
from cutegen_core.records.performance import COMPILED, EAGER
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.share.exports import export
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.views.speed import performance_of
from cutegen_core.wiring import Tools

OWN = Path(__file__).parent / "recorded"
RECORDINGS = Path(__file__).parents[2] / "assets" / "recordings"
_TELL_S = 2.0
BUILT_IN = ("softmax", "layernorm", "matmul_square")


class _Recorder:
    """A store and the tools of all sessions; the compilers and the worker start once."""

    def __init__(self, folder: Path, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        self._store = Store(folder / "store.db")
        self._tools = Tools(self._store)
        self._tools.warm(lambda line: print(line, flush=True))  # a GPU's peaks, too: without them there is no roofline

    def record(self, problem: Problem) -> Path:
        """Play a session and write its recording; return the file."""
        session = self._create(problem)
        person = Person(self._store, self._tools, session)
        enough = threading.Timer(self._chosen.seconds, self._stop, [session])
        enough.start()
        done = threading.Event()
        threading.Thread(target=self._tell, args=(session, done), daemon=True).start()
        try:
            state = person.looks()
        finally:
            enough.cancel()
            done.set()
        state = self._end(person, state)
        for step in state.steps:
            print(f"  step {step.number}: {step.idea}: {step.status} {step.outcome} {self._times(state, step.number)}")
        where = state.settings.device_name.split()[-1].lower() if self._timed else "emulator"
        output: Path = self._chosen.out / f"{problem.name.replace('_', '-')}-{where}.jsonl.gz"
        output.parent.mkdir(parents=True, exist_ok=True)
        export(self._store, session, "jsonl", output)
        return output

    def close(self) -> None:
        self._tools.close()
        self._store.close()

    @property
    def _timed(self) -> bool:
        return bool(self._chosen.executor == ExecutorKind.GPU)

    def _create(self, problem: Problem) -> str:
        """Create a session whose title says where it was recorded."""
        draft = start.create(
            self._store, problem, answered_by=AnsweredBy.PLAYBOOK, executor=self._chosen.executor,
            autonomy=Autonomy.AUTO, max_steps=self._chosen.steps,
        )  # fmt: skip
        created = self._store.events(draft)[0].event
        assert isinstance(created, SessionCreated)
        settings = created.settings
        name = settings.device_name if self._timed else "the CPU emulator"
        told = settings.device_name if self._timed else f"{settings.device_name}, emulated on a CPU: nothing is timed"
        return self._store.create_session(
            SessionCreated(replace(settings, title=f"{problem.title}, recorded on {name}", device_name=told))
        )

    def _stop(self, session: str) -> None:
        self._store.submit(session, Decision(DecisionKind.STOP))

    def _tell(self, session: str, done: threading.Event) -> None:
        """Print each stage as it ends and what a long one does: a run that is cut off says where its time went."""
        begun, seen, told = time.monotonic(), 0, ""
        while not done.wait(_TELL_S):
            ended = []
            for recorded in self._store.events(session, seen):
                seen = recorded.seq
                if isinstance(recorded.event, StageEnded):
                    ended.append(_describe(recorded.event))
            live = self._store.live(session).rpartition("\n")[2]
            for line in [*ended, *([live] if live != told else [])]:
                print(f"    {time.monotonic() - begun:6.1f} s {line}", flush=True)
            told = live

    def _end(self, person: Person, state: State) -> State:
        """Accept the best kernel, unless that is done, and profile it."""
        if state.best is None:
            raise SystemExit(f"no kernel of {state.settings.problem_name} passed: {state.status} {state.reason}")
        if state.status is not SessionState.ACCEPTED:
            state = person.decides(DecisionKind.ACCEPT, candidate=state.best)
        if self._timed:
            state = person.decides(DecisionKind.STUDY, study=StudyKind.PROFILE, candidate=state.best)
        return state

    def _times(self, state: State, number: int) -> str:
        timed = overall(performance_of(self._store, state.steps[number - 1]))
        if timed is None:
            return ""
        against = [f"{s.ratio:.2f}x {s.baseline}" for s in timed.speedups if s.baseline in (EAGER, COMPILED)]
        return f"{timed.candidate.median_us:.1f} us {', '.join(against)}"


def _describe(event: StageEnded) -> str:
    return f"step {event.step}: {event.result.stage} {event.result.status} in {event.result.seconds:.1f} s"


def _load(name: str) -> Problem:
    own = OWN / f"{name}.py"
    return library.load(str(own) if own.is_file() else name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=[*BUILT_IN, *sorted(path.stem for path in OWN.glob("*.py"))])
    parser.add_argument("--out", type=Path, default=RECORDINGS)
    parser.add_argument("--seconds", type=float, default=70.0, help="for each problem, until its session is stopped")
    parser.add_argument("--steps", type=int, default=8, help="most steps of a session")
    parser.add_argument("--most-kb", type=int, default=300)
    parser.add_argument("--executor", type=ExecutorKind, default=ExecutorKind.GPU)
    chosen = parser.parse_args()
    too_large = []
    with tempfile.TemporaryDirectory(prefix="cutegen-record-") as folder:
        recorder = _Recorder(Path(folder), chosen)
        try:
            for name in chosen.problems:
                begun = time.monotonic()
                print(name, flush=True)
                output = recorder.record(_load(name))
                kb = output.stat().st_size / 1024
                print(f"  {output}: {kb:.0f} kB, {time.monotonic() - begun:.0f} s", flush=True)
                if kb > chosen.most_kb:
                    output.unlink()
                    too_large.append(f"{name} ({kb:.0f} kB)")
        finally:
            recorder.close()
    if too_large:
        print(f"larger than {chosen.most_kb} kB and not kept: {', '.join(too_large)}; record fewer --steps")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
