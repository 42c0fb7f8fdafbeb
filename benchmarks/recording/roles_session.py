"""Record four roles at work on an existing kernel: `python -m benchmarks.recording.roles_session`.

The playbook answers all four roles; a script stands in for the person, who approves each answer, sends one plan back
with a word, and accepts the best kernel when the playbook has no more, or when `--seconds` have passed.
`--mutants` says with how many mutants the suite is checked. `--executor cpu` plays the same on the emulator.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.recording.session import Person
from cutegen_core.evaluate.mutation.trust import MutantSample
from cutegen_core.problems import library
from cutegen_core.records.decision import Autonomy, DecisionKind, Gate
from cutegen_core.records.event import AnsweredBy, Outcome, Role, SessionCreated
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.session import start
from cutegen_core.share.exports import export
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools

FOLDER = Path(__file__).parents[2] / "assets" / "recordings"
SENT_BACK = "tuned"
"""What the person asks the planner for instead of its first plan: a name of the playbook's menu."""


def record(folder: Path, chosen: argparse.Namespace) -> State:
    """Play the session in a store of its own under `folder`, and write the recording."""
    store = Store(folder / "store.db")
    tools = Tools(store)
    tools.sample = MutantSample(chosen.mutants, chosen.mutants + chosen.mutants // 2)
    try:
        tools.warm(lambda line: print(line, flush=True))  # a GPU's peaks, too: without them there is no roofline
        session = _create(store, chosen)
        chosen.output.parent.mkdir(parents=True, exist_ok=True)

        def keep() -> None:
            export(store, session, "jsonl", chosen.output)

        state = _play(Person(store, tools, session), chosen.seconds, keep)
        keep()
        return state
    finally:
        tools.close()


def _create(store: Store, chosen: argparse.Namespace) -> str:
    problem = library.load(chosen.problem)
    draft = start.create(
        store,
        problem,
        answered_by=AnsweredBy.PLAYBOOK,
        strategy="astra",
        executor=ExecutorKind(chosen.executor),
        autonomy=Autonomy.STEP,
        gates=(Gate.ANSWER, Gate.PROMOTION),
    )
    created = store.events(draft)[0].event
    assert isinstance(created, SessionCreated)
    place = created.settings.device_name if chosen.executor == "gpu" else "the CPU emulator"
    title = f"{problem.title}: four roles, recorded on {place}"
    return store.create_session(SessionCreated(replace(created.settings, title=title)))


def _play(person: Person, seconds: float, keep: Callable[[], None]) -> State:
    """Play to the end; `keep` is called before the best kernel is accepted, which takes long."""
    begun, sent_back, told = time.monotonic(), False, 0
    state = person.looks()
    while state.gate is not None:
        for step in state.steps[told:]:
            if step.outcome is not None:
                told = step.number
                print(f"{time.monotonic() - begun:6.1f} s  step {told}: {step.idea}: {step.status}", flush=True)
        over = time.monotonic() - begun > seconds or state.gate.gate is Gate.INSTRUCTION
        if over and state.best and state.gate.gate is not Gate.PROMOTION:
            keep()
            return person.decides(DecisionKind.ACCEPT, candidate=state.best)
        if state.gate.role is Role.PLANNING and not sent_back and _promoted(state) > 1:
            sent_back = True
            state = person.decides(DecisionKind.REDIRECT, text=SENT_BACK)
        else:
            state = person.approves()
    return state


def _promoted(state: State) -> int:
    return sum(step.outcome is Outcome.PROMOTED for step in state.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="merge_attn_states_lse")
    parser.add_argument("--output", type=Path, default=FOLDER / "merge-roles-h200.jsonl.gz")
    parser.add_argument("--executor", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1e9, help="accept the best after this time")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cutegen-record-") as folder:
        state = record(Path(folder), chosen)
    for step in state.steps:
        print(f"step {step.number}: {step.idea}: {step.status} {step.outcome} {step.note}")
    for suite in state.suites:
        print(f"suite: {suite.trusted} {suite.message}")
    print(f"{state.status} {state.reason}: {chosen.output} ({chosen.output.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
