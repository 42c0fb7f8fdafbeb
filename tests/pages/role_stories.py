"""A session with four roles on a GPU, as the engine writes it: every card, a suite, a redirected plan, a regression."""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.evaluate.mutation.study import MutantOutcome, MutantRow, MutationTable
from cutegen_core.evaluate.mutation.trust import SuiteCheck
from cutegen_core.problems import library, suite
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Role,
    StageEnded,
    StepStarted,
    SuiteTried,
)
from cutegen_core.records.performance import EXISTING, Bound, Performance, WorkloadPerformance
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.records.trial import ExecutorKind, Stage, StageResult, StageStatus, Status
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import measured, speedup, timed, timing
from tests.pages.stories import Story, passed
from tests.places import DATA

PROBLEM = "silu_and_mul"
SUITE = """```python
WORKLOADS = {
    "odd rows": {"role": "emulator"},
    "odd rows, sparse": {"role": "emulator", "values": "sparse"},
}
```
"""
PLAN = """Idea: half2: two elements a thread, loaded as one
Shapes: all, the long rows most
Effect: half as many load instructions; about 1.2x
Risk: a row of odd length needs a scalar tail
"""
FAST = {0: 0.62, 1: 0.55, 2: 0.71, 3: 0.66}


class RoleStory(Story):
    """A story with steps in which roles are asked."""

    def start_step(self) -> None:
        self.steps += 1
        self.add(StepStarted(self.steps, self.base))

    def answer(
        self, role: Role, text: str, by: AnsweredBy = AnsweredBy.LLM, *, tokens: tuple[int, int] = (2310, 184)
    ) -> None:
        prompt = self.store.put(f"the prompt for {role}\n")
        told = self.store.put(text)
        if by is AnsweredBy.LLM:
            self.add(ModelCalled(self.steps, role, prompt, "served-model", 12_000))
            self.add(ModelAnswered(self.steps, role, prompt, told, "stop", *tokens, seconds=3.4, by=by))
        else:
            self.add(ModelAnswered(self.steps, role, prompt, told, by=by))

    def wait_at(self, role: Role) -> None:
        """Stop at the gate at which this role's last answer is reviewed."""
        prompt = self.store.put(f"the prompt for {role}\n")
        self.add(GateOpened(self.steps, Gate.ANSWER, prompt=prompt, role=role))

    def send_back(self, role: Role, words: str) -> None:
        self.wait_at(role)
        self.add(Decided(Decision(DecisionKind.REDIRECT, self.seq, text=words)))

    def write(self, source: str, idea: str, plan: str, author: Author = Author.MODEL) -> str:
        key = self.store.put(source)
        generated = StageResult(Stage.GENERATE, StageStatus.PASSED, 0.4)
        self.add(Proposed(self.steps, key, author, idea, plan, self.base), StageEnded(self.steps, generated))
        return key


def shape(name: str, us: float, existing_us: float, best_us: float | None, floor_us: float) -> WorkloadPerformance:
    """Return one shape, with the existing kernel among the contenders."""
    plain = measured(us, best_us, workload=name)
    beside = timing(EXISTING, existing_us)
    bounds = tuple(Bound(kind, int(4e6 * floor_us), 1000, "fp32", floor_us, 0.1) for kind in ("graph", "compulsory"))
    return replace(
        plain, timings=(*plain.timings, beside), speedups=(*plain.speedups, speedup(beside, plain.candidate)),
        bounds=bounds, untimed=(),
    )  # fmt: skip


def suite_tried(story: RoleStory, *, survivors: int = 0) -> SuiteTried:
    """Return a checked suite, trusted where no mutant survives."""
    problem = story.store.record(Problem, story.settings.problem)
    rows = [
        MutantRow(f"index-{n}", "index", 20 + n, "c < cols", "c <= cols", MutantOutcome.CAUGHT, Status.MEMORY_ERROR)
        for n in range(30 - survivors)
    ]
    rows += [
        MutantRow(f"constant-{n}", "constant", 18 + n, "1.0f", "1.001f", MutantOutcome.SURVIVED, Status.PASSED,
                  proof="workload wide")
        for n in range(survivors)
    ]  # fmt: skip
    check = SuiteCheck(passed(story.store, story.base or ""), MutationTable(tuple(rows)))
    with_suite = story.store.put_record(suite.with_suite(problem, SUITE))
    return SuiteTried(story.steps, with_suite, story.store.put_record(check), check.trusted, check.message)


def roles_story(store: Store, *, waits_for: Role | None = Role.PLANNING) -> RoleStory:
    """Play four steps: the existing kernel; a suite and a faster kernel; one that is slower at one shape; an open one.

    Args:
        waits_for: the role whose answer waits in the last step; None leaves the session at the verdict of the third.
    """
    problem = next(p for p in library.catalogue() if p.name == PROBLEM)
    names = [w.name for w in problem.with_role(WorkloadRole.BENCHMARK)]
    slow = [12.1 * (n + 1) for n in range(len(names))]
    floors = [0.42 * us for us in slow]

    def performance(took: list[float], best: list[float] | None) -> Performance:
        return Performance(tuple(
            shape(name, us, slow[n], best[n] if best else None, floors[n])
            for n, (name, us) in enumerate(zip(names, took, strict=True))
        ))  # fmt: skip

    story = RoleStory(store, problem=PROBLEM, answered_by=AnsweredBy.LLM, strategy="astra")
    story.begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    story.start_step()
    first = story.write(problem.existing, "the existing kernel", "It must pass.", Author.IMPORT)
    story.test(timed(store, first, performance(slow, None))).promote(first)

    story.start_step()
    story.answer(Role.TESTING, "WORKLOADS = {'a': {'role': 'emulatr'}}")
    story.add(SuiteTried(story.steps, "", "", False, "answer, line 1: workload 'a': unknown role 'emulatr'"))
    story.answer(Role.TESTING, SUITE)
    story.add(suite_tried(story))
    story.answer(Role.PROFILING, "Every shape is bound by memory; loads are two bytes wide.")
    story.answer(Role.PLANNING, PLAN.replace("half2", "unroll"))
    story.send_back(Role.PLANNING, "not unrolling: wider loads")
    story.answer(Role.PLANNING, PLAN)
    story.answer(Role.CODING, f"```cpp\n{problem.existing}// half2\n```", tokens=(4120, 1630))
    faster = [us * FAST[n % 4] for n, us in enumerate(slow)]
    second = story.write(f"{problem.existing}// half2\n", "half2: two elements a thread, loaded as one", PLAN)
    story.test(timed(store, second, performance(faster, slow))).promote(second)

    story.start_step()
    story.answer(Role.PROFILING, "The shortest shape is bound by its launch.", AnsweredBy.PERSON)
    story.answer(Role.PLANNING, "Idea: one warp a row\nShapes: the short ones\nEffect: small\nRisk: long rows")
    story.answer(Role.CODING, f"```cpp\n{problem.existing}// warps\n```")
    mixed = [us * (0.8 if n else 1.35) for n, us in enumerate(faster)]
    third = story.write(f"{problem.existing}// warps\n", "one warp a row", "Idea: one warp a row")
    story.test(timed(store, third, performance(mixed, faster)))
    if waits_for is None:
        story.gate(Gate.PROMOTION, third)
        return story.publish()  # type: ignore[return-value]
    story.close(Outcome.KEPT, f"regressed on {names[0]}")
    story.start_step()
    story.answer(Role.PROFILING, "Loads of 32 bits are left.", AnsweredBy.PLAYBOOK)
    if waits_for is not Role.PROFILING:
        story.answer(Role.PLANNING, PLAN.replace("half2", "128 bits"))
    story.wait_at(waits_for)
    return story.publish()  # type: ignore[return-value]


TINY = DATA / "existing" / "double_relu.py"


def tiny_story(store: Store, *, at: Role) -> RoleStory:
    """Play two steps on a tiny problem for a live engine to go on with: the existing kernel, and one that waits at the
    playbook's answer of the testing or the profiling role."""
    problem = library.load(str(TINY))
    story = RoleStory(store, given=problem, strategy="astra")
    story.begin(held=True)
    story.start_step()
    first = story.write(problem.existing, "the existing kernel", "It must pass.", Author.IMPORT)
    story.test(passed(store, first)).promote(first)
    story.start_step()
    story.answer(Role.TESTING, SUITE, AnsweredBy.PLAYBOOK)
    if at is not Role.TESTING:
        story.add(suite_tried(story))
        story.answer(Role.PROFILING, "Nothing was timed here.", AnsweredBy.PLAYBOOK)
    story.wait_at(at)
    return story.publish()  # type: ignore[return-value]
