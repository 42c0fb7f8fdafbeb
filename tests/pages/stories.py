"""Sessions as the engine writes them: real events in a real store, for looking at without running anything."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from cutegen_core.evaluate.timing.overall import overall, shape_times
from cutegen_core.problems import library
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Autonomy, Decision, DecisionKind, Gate
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    Event,
    GateOpened,
    Outcome,
    Proposed,
    Recorded,
    SessionCreated,
    SessionSettings,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepClosed,
    StepStarted,
    TrialStarted,
    Tried,
)
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import (
    Comparison,
    Correctness,
    Diagnostic,
    ExecutorKind,
    Finding,
    KernelResources,
    Mark,
    Mismatch,
    Occupancy,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)
from cutegen_core.session import start
from cutegen_core.trajectory.store import Store

KERNEL = """\
/* cutegen
idea = "one block a row, three passes"

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }

[[launch]]
kernel = "softmax<BLOCK>"
grid   = ["rows"]
block  = ["BLOCK"]
args   = ["x", "out", "cols"]
*/
#include <cute/tensor.hpp>
using namespace cute;

// The largest (or the sum) over the block; every thread gets it.
template <int BLOCK, class Op>
__device__ float block_reduce(float value, Op op) {
  __shared__ float partial[BLOCK / 32];
  for (int lane = 16; lane > 0; lane /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, lane));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < BLOCK / 32; ++warp) value = op(value, partial[warp]);
  __syncthreads();
  return value;
}

template <int BLOCK>
__global__ __launch_bounds__(BLOCK) void softmax(float const* x, float* out, int cols) {
  auto row = make_tensor(make_gmem_ptr(x + size_t(blockIdx.x) * cols), make_layout(cols));
  auto result = make_tensor(make_gmem_ptr(out + size_t(blockIdx.x) * cols), make_layout(cols));
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += BLOCK) largest = max(largest, row(c));
  largest = block_reduce<BLOCK>(largest, [](float a, float b) { return max(a, b); });
  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += expf(row(c) - largest);
  sum = block_reduce<BLOCK>(sum, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < cols; c += BLOCK) result(c) = expf(row(c) - largest) / sum;
}
"""
ONE_PASS = KERNEL.replace("three passes", "online maximum and sum in one pass").replace(
    """  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += expf(row(c) - largest);
""",
    """  float sum = 0.0f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) {
    float const value = row(c);
    float const higher = max(largest, value);
    sum = sum * expf(largest - higher) + expf(value - higher);
    largest = higher;
  }
""",
)
VECTORS = ONE_PASS.replace("one pass", "one pass, 128-bit loads").replace("c += BLOCK", "c += BLOCK * 4")
NO_BARRIER = ONE_PASS.replace("online maximum", "no barriers, online maximum").replace("  __syncthreads();\n", "", 1)
TYPO = ONE_PASS.replace("float const higher", "float const higer")
HOSTILE = "<img src=x onerror=\"document.title='owned'\">[link](javascript:alert(1)) :red[x] $y$"


@dataclass
class Story:
    """Writes one session, event by event, or held back until it is published as a whole: beside a live engine, which
    would take a session that runs for a moment for its own work."""

    store: Store
    problem: str = "softmax"
    answered_by: AnsweredBy = AnsweredBy.PLAYBOOK
    strategy: str = "cutegen"
    given: Problem | None = None
    session: str = ""
    seq: int = 0
    steps: int = 0
    base: str | None = None
    settings: SessionSettings = field(init=False)
    held: list[Recorded] | None = None

    def begin(
        self,
        *,
        held: bool = False,
        max_steps: int = 40,
        autonomy: Autonomy = Autonomy.STEP,
        executor: ExecutorKind = ExecutorKind.CPU,
        device: str = "H100 SXM",
    ) -> Story:
        problem = self.given or next(p for p in library.catalogue() if p.name == self.problem)
        self.settings = SessionSettings(
            self.store.put_record(problem), problem.name, self.answered_by, executor, "sm_90a", device,
            autonomy=autonomy, max_steps=max_steps, title=problem.title, strategy=self.strategy,
            gates=start.default_gates(self.strategy),
        )  # fmt: skip
        # Waiting from the first moment, so that a live engine beside the test never takes it for work.
        beginning = (SessionCreated(self.settings), StateChanged(SessionState.AWAITING_REVIEW))
        now = time.time()
        self.held = [Recorded(seq, now, event) for seq, event in enumerate(beginning, 1)]
        self.seq = len(beginning)
        return self if held else self.publish()

    def publish(self) -> Story:
        """Write into the store, at once."""
        assert self.held is not None
        self.session = self.store.adopt(self.held)
        self.held = None
        return self

    def add(self, *events: Event) -> Story:
        if self.held is not None:
            now = time.time()
            self.held += [Recorded(self.seq + i, now, event) for i, event in enumerate(events, 1)]
            self.seq += len(events)
            return self
        self.seq = self.store.append(self.session, events, after=self.seq)[-1].seq
        return self

    def propose(self, source: str, idea: str, *, plan: str = "", author: Author = Author.PLAYBOOK) -> str:
        """Add a new step with this candidate; return its key."""
        self.steps += 1
        key = self.store.put(source)
        generated = StageResult(Stage.GENERATE, StageStatus.PASSED, 0.21)
        self.add(
            StepStarted(self.steps, self.base),
            Proposed(self.steps, key, author, idea, plan, self.base),
            StageEnded(self.steps, generated),
        )
        return key

    def gate(self, gate: Gate, candidate: str | None, note: str = "") -> Story:
        return self.add(GateOpened(self.steps, gate, candidate, note))

    def approve(self, gate: Gate, candidate: str) -> Story:
        return self.add(Decided(Decision(DecisionKind.APPROVE, self.seq, gate=gate, candidate=candidate)))

    def test(self, trial: Trial) -> Story:
        self.add(TrialStarted(self.steps, trial.candidate))
        for result in trial.stages:
            self.add(StageStarted(self.steps, result.stage), StageEnded(self.steps, result))
        kernels = trial.resources.kernels if trial.resources else ()
        timed = overall(trial.performance)
        return self.add(
            Tried(
                self.steps, trial.candidate, self.store.put(as_json.dump(trial)), trial.status, trial.message,
                registers=max((k.registers for k in kernels), default=0),
                spill_bytes=trial.resources.spill_bytes if trial.resources else 0,
                smem_bytes=max((o.smem_bytes for o in trial.resources.occupancy), default=0) if trial.resources else 0,
                latency_ms=timed.candidate.median_us / 1000 if timed else None, marks=trial.marks,
                shapes=shape_times(trial.performance),
            )
        )  # fmt: skip

    def close(self, outcome: Outcome, note: str = "") -> Story:
        return self.add(StepClosed(self.steps, outcome, note))

    def promote(self, candidate: str) -> Story:
        self.base = candidate
        return self.close(Outcome.PROMOTED)


def resources(store: Store, *, registers: int = 24, spills: int = 0, smem: int = 1056, extra: int = 0) -> Resources:
    mix = {
        "LDG": 6, "STG": 3, "FADD": 12 + extra, "FMUL": 9, "FFMA": 18 + 2 * extra, "MUFU": 7, "SHFL": 10, "BAR": 4,
        "IMAD": 31, "IADD3": 22 + extra, "ISETP": 14, "BRA": 19, "MOV": 12, "LDS": 8, "STS": 2, "S2R": 3, "EXIT": 2,
    }  # fmt: skip
    kernel = KernelResources(
        "softmax<BLOCK>", "void softmax<256>(float const*, float*, int)", registers, spills // 2, spills - spills // 2,
        0, smem, mix,
    )  # fmt: skip
    sass = "\n".join(f"        /*{16 * i:04x}*/  FFMA.FTZ R{i % 24}, R{i % 7}, R4, -R{i % 5} ;" for i in range(120))
    shapes = {"one": 1, "ragged": 7, "tile": 8, "benchmark": 4096}
    rows = [
        Occupancy(name, "softmax<BLOCK>", (rows, 1, 1), (256, 1, 1), smem, 8, 1.0 if registers <= 32 else 0.375,
                  rows / (8 * 132), "threads" if registers <= 32 else "registers")
        for name, rows in shapes.items()
    ]  # fmt: skip
    return Resources("sm_90a", (kernel,), tuple(rows), "", store.put(sass), 0.42)


def passed(store: Store, candidate: str, **numbers: int) -> Trial:
    stages = (
        StageResult(Stage.PATCH, StageStatus.PASSED, 0.01),
        StageResult(Stage.COMPILE, StageStatus.PASSED, 1.13),
        StageResult(Stage.TEST, StageStatus.PASSED, 1.92),
        StageResult(Stage.BENCHMARK, StageStatus.SKIPPED, 0.0, "needs a GPU"),
        StageResult(Stage.PROFILE, StageStatus.SKIPPED, 0.0, "needs a GPU"),
    )
    runs = []
    for workload in ("one", "ragged", "tile", "tile+1", "large_mean"):
        runs += [
            WorkloadVerdict(
                workload, mode, 7341, Status.PASSED, 0.11, order, comparisons=_right() if order == "forward" else ()
            )
            for mode, order in (("checked", "random"), ("plain", "forward"), ("plain", "reverse"))
        ]
    return Trial(
        candidate, Status.PASSED, stages, ExecutorKind.CPU, correctness=Correctness(ExecutorKind.CPU, tuple(runs)),
        resources=resources(store, **numbers), marks=(Mark.NOT_TIMED,), log="ptxas info : 24 registers\n",
    )  # fmt: skip


def wrong(store: Store, candidate: str, pattern: str = "only the last 3 columns") -> Trial:
    grid = tuple(tuple(0.75 if c == 31 else 0.0 for c in range(32)) for _ in range(7))
    first = tuple(Mismatch((row, 1018), float("nan"), 0.00021 + row / 1e5) for row in range(5))
    comparison = Comparison("out", (7, 1021), 21, 7147, 0.0013, 812.0, 2.1e-8, nan=21, poison=21, first=first,
                            pattern=pattern, heatmap=grid)  # fmt: skip
    message = (
        f"workload ragged: 21 of 7147 elements of out are wrong; first at [0, 1018]: got nan, want 0.00021; {pattern}"
    )
    failed = WorkloadVerdict(
        "ragged", "plain", 7341, Status.INCORRECT_NUMERICAL, 0.2, "forward", message, (comparison,)
    )
    trial = passed(store, candidate, registers=40, spills=56)
    return _failed(trial, Status.INCORRECT_NUMERICAL, message, (*trial.correctness.verdicts[:4], failed))


def race(store: Store, candidate: str) -> Trial:
    finding = Finding(
        "race", "read of `partial` by a thread that has not waited for the write of thread (0, 0, 0)", "partial", 26,
        "softmax<BLOCK>", (0, 0, 0), (32, 0, 0),
    )  # fmt: skip
    message = "workload ragged: race on partial at line 26: block (0, 0, 0), thread (32, 0, 0)"
    failed = WorkloadVerdict("ragged", "checked", 99, Status.MEMORY_ERROR, 0.3, "random", message, (), (finding,))
    trial = passed(store, candidate)
    return _failed(trial, Status.MEMORY_ERROR, message, (*trial.correctness.verdicts[:1], failed))


def not_compiled(candidate: str, text: str = 'identifier "higher" is undefined') -> Trial:
    notes = ("in instantiation of softmax<256>", "candidate.cu(38): see the call here")
    diagnostic = Diagnostic(40, "error", text, "nvrtc", notes)
    stages = (
        StageResult(Stage.PATCH, StageStatus.PASSED, 0.01),
        StageResult(Stage.COMPILE, StageStatus.FAILED, 0.61, Status.COMPILE_ERROR),
    )
    return Trial(
        candidate,
        Status.COMPILE_ERROR,
        stages,
        ExecutorKind.CPU,
        f"line 40: {text}",
        (diagnostic,),
        f"candidate.cu(40): error: {text}\n",
    )


def softmax_story(store: Store) -> Story:
    """Return seven steps: seed, one pass, a race, a repair, a compile error by hand, a wrong tail, and an open diff."""
    story = Story(store).begin(held=True)
    plan = (
        "Expected: one read of x less, about a third of the traffic.\nRisk: the online rescaling needs care with -inf."
    )
    seed = story.propose(KERNEL, "one block a row, three passes", plan="The simplest correct kernel.")
    story.gate(Gate.DIFF, seed).approve(Gate.DIFF, seed).test(passed(store, seed)).promote(seed)
    bad = story.propose(NO_BARRIER, "no barriers, online maximum", plan=plan)
    story.gate(Gate.DIFF, bad).approve(Gate.DIFF, bad).test(race(store, bad)).close(Outcome.FAILED, "race on partial")
    good = story.propose(ONE_PASS, "online maximum and sum in one pass", plan=plan)
    story.gate(Gate.DIFF, good).approve(Gate.DIFF, good).test(passed(store, good, registers=30, extra=6)).promote(good)
    typo = story.propose(TYPO, "edited by hand", author=Author.PERSON)
    story.test(not_compiled(typo)).close(Outcome.FAILED, "line 40")
    vectors = story.propose(VECTORS, "one pass, 128-bit loads", plan=plan)
    story.gate(Gate.DIFF, vectors).approve(Gate.DIFF, vectors).test(wrong(store, vectors))
    return story.gate(Gate.PROMOTION, vectors).publish()


def long_story(store: Store, steps: int) -> Story:
    """Return a session with many tested steps, for measuring."""
    story = Story(store).begin(held=True, max_steps=steps + 5)
    for number in range(steps):
        key = story.propose(ONE_PASS + f"// {number}\n", f"idea {number}: a little more of everything", plan="A plan.")
        story.gate(Gate.DIFF, key).approve(Gate.DIFF, key)
        if number % 4 == 3:
            story.test(wrong(store, key)).close(Outcome.FAILED, "wrong")
        else:
            story.test(passed(store, key, registers=24 + number % 40, extra=number % 9)).promote(key)
    return story.publish()


def hostile_story(store: Store) -> Story:
    """Markup everywhere a kernel, a model or a log can put text."""
    story = Story(store).begin(held=True)
    key = story.propose(KERNEL.replace("// The largest", f"// {HOSTILE}"), HOSTILE, plan=HOSTILE)
    story.test(not_compiled(key, HOSTILE)).close(Outcome.FAILED, HOSTILE)
    other = story.propose(KERNEL + f"// {HOSTILE}\n", HOSTILE, plan=HOSTILE)
    story.test(wrong(store, other, pattern=HOSTILE))
    return story.gate(Gate.PROMOTION, other, HOSTILE).publish()


def _right() -> tuple[Comparison, ...]:
    return (Comparison("out", (7, 1021), 0, 7147, 3e-8, 0.004, 2e-8),)


def _failed(trial: Trial, status: Status, message: str, runs: tuple[WorkloadVerdict, ...]) -> Trial:
    stages = (*trial.stages[:2], StageResult(Stage.TEST, StageStatus.FAILED, 0.9, status))
    return replace(
        trial, status=status, message=message, stages=stages, correctness=Correctness(ExecutorKind.CPU, runs), marks=()
    )
