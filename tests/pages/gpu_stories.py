"""Sessions as a GPU machine writes them: timings, bounds, profiles, a timed sweep; numbers as an H200 gives them."""

from __future__ import annotations

import random
from dataclasses import replace

from cutegen_core.evaluate.sweep import SweepRow, SweepTable
from cutegen_core.evaluate.tuning.table import BY_TIME
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, Gate, StudyKind
from cutegen_core.records.event import Decided, Outcome, SessionState, StateChanged, Studied
from cutegen_core.records.performance import (
    BEST,
    CANDIDATE,
    COMPILED,
    EAGER,
    Bound,
    Conditions,
    KernelProfile,
    LineCost,
    Metric,
    Performance,
    Profile,
    Speedup,
    Timing,
    Untimed,
    Word,
    WorkloadPerformance,
)
from cutegen_core.records.trial import (
    Correctness,
    ExecutorKind,
    KernelResources,
    Mark,
    Resources,
    Stage,
    StageResult,
    StageStatus,
    Status,
    Trial,
    WorkloadVerdict,
)
from cutegen_core.trajectory.store import Store
from tests.pages.stories import KERNEL, NO_BARRIER, ONE_PASS, TYPO, VECTORS, Story, not_compiled, passed, race
from tests.places import DATA

SASS = DATA / "softmax_one_pass.sass"
COPY_BYTES_PER_S, READ_BYTES_PER_S, FP32_FLOPS_PER_S = 4.25e12, 4.30e12, 51.4e12
ELEMENTS = 4096 * 16384
NOISE = 0.006
TWO_ROWS = VECTORS.replace("128-bit loads", "128-bit loads, two rows in flight")
TAIL = VECTORS.replace("c < cols", "c < cols / 2").replace("128-bit loads", "128-bit loads, half of every row")


def samples(median_us: float, n: int, spread: float = 0.004, seed: int = 1) -> tuple[float, ...]:
    """Draw times as a GPU gives them: a narrow middle and a tail to the slow side."""
    draw = random.Random(seed * 1000 + int(median_us * 10))
    around = (draw.gauss(0, spread) + (draw.expovariate(1 / (3 * spread)) if draw.random() < 0.15 else 0)
              for _ in range(n))  # fmt: skip
    return tuple(round(median_us * (1 + d), 3) for d in around)


def timing(contender: str, median_us: float, n: int = 100, dropped: int = 0, method: str = "events") -> Timing:
    taken = sorted(kept := samples(median_us, n, seed=len(contender)))
    return Timing(contender, taken[n // 2], taken[n // 10], taken[9 * n // 10], NOISE, n, dropped, method, kept)


def speedup(baseline: Timing, candidate: Timing) -> Speedup:
    ratio = baseline.median_us / candidate.median_us
    word = Word.FASTER if ratio > 1 + 2 * NOISE else Word.SLOWER if ratio < 1 - 2 * NOISE else Word.SAME
    return Speedup(baseline.contender, round(ratio, 4), round(ratio * 0.9962, 4), round(ratio * 1.0041, 4), word)


def conditions(**changes: object) -> Conditions:
    usual = Conditions(
        "NVIDIA H200", "580.95.05", (1965, 1980), 3201, (41, 47), (312.0, 448.0), (), 0, 4, 126 << 20, 0.02,
    )  # fmt: skip
    return replace(usual, **changes)  # type: ignore[arg-type]


def softmax_bounds() -> tuple[Bound, ...]:
    moved, least, flops = 8 * ELEMENTS, 8 * ELEMENTS - (60 << 20), 5 * ELEMENTS
    compute_us = 1e6 * flops / FP32_FLOPS_PER_S
    return (
        Bound("graph", moved, flops, "fp32", 1e6 * moved / COPY_BYTES_PER_S, compute_us),
        Bound("compulsory", least, flops, "fp32", 1e6 * least / READ_BYTES_PER_S, compute_us),
    )


def measured(median_us: float, best_us: float | None = None, *, workload: str = "benchmark") -> WorkloadPerformance:
    """Return the candidate beside eager and torch.compile, which take as long in every trial, and the best so far."""
    candidate = timing(CANDIDATE, median_us, dropped=3)
    others = [timing(EAGER, 147.2), timing(COMPILED, 149.0)]
    others += [timing(BEST, best_us)] if best_us else []
    return WorkloadPerformance(
        workload, (candidate, *others), tuple(speedup(other, candidate) for other in others),
        (Untimed("torch.mm", "no library call computes a softmax in one kernel of that name"),), NOISE, conditions(),
        softmax_bounds(), round(candidate.median_us * 1.004, 2),
    )  # fmt: skip


def profile(duration_us: float, registers: int, reads_percent: float) -> Profile:
    metrics = (
        Metric("duration", duration_us, "us"), Metric("SM throughput", 31.4, "%"),
        Metric("memory throughput", reads_percent, "%"), Metric("DRAM bandwidth", 48 * reads_percent, "GB/s"),
        Metric("DRAM throughput", reads_percent, "%"), Metric("DRAM read", 268.6, "MB"),
        Metric("DRAM written", 261.9, "MB"), Metric("L1 hit rate", 1.8, "%"), Metric("L2 hit rate", 48.9, "%"),
        Metric("achieved occupancy", 91.3, "%"), Metric("registers", registers, "per thread"),
        Metric("issue slots busy", 22.7, "%"), Metric("eligible warps", 0.34, "per scheduler"),
        Metric("bytes used per 32 B sector, loads", 32.0, ""),
        Metric("warps wait for global or local memory", 63.8, "%"), Metric("warps wait for block barrier", 9.1, "%"),
    )  # fmt: skip
    advice = (
        "This kernel reaches more than 80 % of the available memory performance: work is likely bound by the memory.",
        "On average each warp spends 15.2 cycles waiting for a scoreboard dependency on an L1TEX operation (64 %).",
    )
    memory = "global or local memory"
    lines = (
        LineCost(38, 412, memory), LineCost(41, 388, memory), LineCost(44, 951, "fixed latency"),
        LineCost(43, 120, "arithmetic pipe"), LineCost(47, 120, "block barrier"), LineCost(48, 1806, memory),
        LineCost(24, 31, "shared memory or special function"), LineCost(28, 64, "block barrier"), LineCost(26, 4),
    )  # fmt: skip
    kernel = KernelProfile("softmax<BLOCK>", metrics, advice, lines)
    return Profile("Nsight Compute 2025.3.1", "benchmark", (kernel,))


def resources(store: Store, registers: int) -> Resources:
    usual = passed(store, "").resources
    assert usual is not None
    mix = {
        "integer": 186, "fp32 arithmetic": 116, "FFMA": 102, "control": 77, "move/select": 69,
        "global load 32-bit": 39, "special function": 22, "constant load": 13, "shuffle/vote": 10,
        "global store 32-bit": 5, "barrier": 4, "shared load 128-bit": 4, "shared store 32-bit": 2,
    }  # fmt: skip
    signature = "void softmax<256>(float const*, float*, int)"
    kernel = KernelResources("softmax<BLOCK>", signature, registers, 0, 0, 0, 64, mix)
    return replace(usual, kernels=(kernel,), sass=store.put(SASS.read_text()))


def timed(
    store: Store, candidate: str, performance: Performance, *, registers: int = 32, marks: tuple[Mark, ...] = ()
) -> Trial:
    """Return a trial that passed every stage on a GPU."""
    trial = passed(store, candidate)
    stages = tuple(
        replace(s, status=StageStatus.PASSED, seconds=2.4, note="")
        if s.stage is Stage.BENCHMARK or (s.stage is Stage.PROFILE and performance.profile)
        else replace(s, note="on request") if s.stage is Stage.PROFILE else s
        for s in trial.stages
    )  # fmt: skip
    correctness = Correctness(ExecutorKind.GPU, tuple(replace(v, order="") for v in trial.correctness.verdicts))  # type: ignore[union-attr]
    return replace(
        trial, executor=ExecutorKind.GPU, stages=stages, performance=performance, marks=marks, correctness=correctness,
        resources=resources(store, registers),
    )  # fmt: skip


def suspect(store: Store, candidate: str, best_us: float) -> Trial:
    """Faster than its work allows."""
    performance = Performance((measured(71.3, best_us),))
    message = "workload benchmark: 71.3 µs, and moving the bytes that must be moved takes 110.2 µs"
    trial = timed(store, candidate, performance)
    failed = StageResult(Stage.BENCHMARK, StageStatus.FAILED, 2.1, Status.SUSPECT)
    verdict = WorkloadVerdict("benchmark", "plain", 77, Status.SUSPECT, 0.1, "", message)
    assert trial.correctness is not None
    return replace(
        trial, status=Status.SUSPECT, message=message, stages=(*trial.stages[:3], failed),
        correctness=replace(trial.correctness, verdicts=(*trial.correctness.verdicts, verdict)),
    )  # fmt: skip


def sweep() -> SweepTable:
    """Return nine points, in three rounds; the defaults and the three that were left took every stage."""
    took = {(128, 2): 0.1391, (128, 4): 0.1353, (256, 2): 0.1336, (256, 4): 0.1312, (512, 2): 0.1329, (512, 4): 0.1307}
    default, wrong = (256, 4), "workload ragged: 12 of 5105 elements of out are wrong"
    rows = [_swept(default, took.pop(default), 3, Status.PASSED, None)]
    rows.append(_swept((512, 4), took.pop((512, 4)), 3, Status.PASSED, Word.SAME))
    rows.append(_swept((512, 2), took.pop((512, 2)), 3, Status.PASSED, Word.SLOWER))
    rows.append(_swept((1024, 2), 0.1299, 3, Status.INCORRECT_NUMERICAL, None, wrong))
    rows += [_swept(point, ms, 2, None, None, "slower: left out after round 2") for point, ms in took.items()]
    rows.append(_swept((1024, 4), 0.1448, 1, None, None, "slower: left out after round 1"))
    rows.append(_swept((1024, 8), 0.1612, 1, None, None, "slower: left out after round 1"))
    why = "relu: block (2048, 1, 1) has 2048 threads; the limit is 1024"
    return SweepTable(tuple(rows), 0, 3, BY_TIME, 2, why, 39, 108)


def _swept(
    point: tuple[int, int], ms: float, rounds: int, status: Status | None, word: Word | None, message: str = ""
) -> SweepRow:
    block, items = point
    raced = tuple(1000 * ms * (1 + 0.002 * number) for number in range(rounds))
    latency = ms if status is Status.PASSED else None
    registers, cost = 24 + 4 * items, 1.0 + abs(4 - items) / 10
    params = {"BLOCK": block, "ITEMS": items}
    return SweepRow(params, status, message, registers, 0, 1.0, latency, word, (), raced, cost)


def gpu_story(store: Store, swept: SweepTable | None = None) -> Story:
    """Play eight steps: slow seed, race, slower than torch, compile error, faster and profiled, SUSPECT, a sweep, an
    open promotion of a kernel that is as fast as the best and unstable."""
    story = Story(store).begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    plan = "Expected: one read of x less.\nRisk: the online rescaling needs care with -inf."
    seed = story.propose(KERNEL, "one block a row, three passes", plan="The simplest correct kernel.")
    first = timed(store, seed, Performance((measured(171.8),)), registers=26)
    story.gate(Gate.DIFF, seed).approve(Gate.DIFF, seed).test(first).promote(seed)
    bad = story.propose(NO_BARRIER, "no barriers, online maximum", plan=plan)
    story.test(race(store, bad)).close(Outcome.FAILED, "race on partial")
    good = story.propose(ONE_PASS, "online maximum and sum in one pass", plan=plan)
    story.test(timed(store, good, Performance((measured(152.4, 171.8),)), registers=32)).promote(good)
    story.add(Studied(StudyKind.PROFILE, good, store.put(as_json.dump(profile(152.1, 32, 81.7)))))
    typo = story.propose(TYPO, "edited by hand", author=Author.PERSON)
    story.test(not_compiled(typo)).close(Outcome.FAILED, "line 40")
    fast = story.propose(VECTORS, "one pass, 128-bit loads", plan=plan)
    best = Performance((measured(131.2, 152.4),), profile(130.8, 40, 95.2))
    story.test(timed(store, fast, best, registers=40, marks=(Mark.NOT_SANITIZED,))).promote(fast)
    tail = story.propose(TAIL, "half of every row", author=Author.MODEL)
    story.test(suspect(store, tail, 131.2)).close(Outcome.FAILED, "faster than the bound allows")
    tuned = story.propose(VECTORS + "// tuned\n", "tune: BLOCK=256, ITEMS=4 (9 timed, 3 of 4 tested points passed)")
    story.add(Studied(StudyKind.SWEEP, "", store.put_record(swept or sweep()), step=story.steps))
    story.test(timed(store, tuned, Performance((measured(130.7, 131.2),)), registers=40))
    story.close(Outcome.KEPT, "0.1307 ms, the best takes 0.1312 ms: SAME")
    rows = story.propose(TWO_ROWS, "two rows in flight", plan=plan, author=Author.MODEL)
    story.test(
        timed(store, rows, Performance((measured(130.9, 131.2),)), registers=64, marks=(Mark.UNSTABLE, Mark.CONFIRM))
    )
    return story.gate(Gate.PROMOTION, rows).publish()


def shapes_story(store: Store) -> Story:
    """Return two steps on two benchmark workloads; the second is faster on the mean and slower on one of them."""
    story = Story(store).begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    seed = story.propose(KERNEL, "one block a row, three passes")
    first = Performance((measured(171.8, workload="small"), measured(160.0, workload="large")))
    story.test(timed(store, seed, first)).promote(seed)
    wide = story.propose(VECTORS, "one pass, 128-bit loads")
    both = Performance((measured(90.1, 171.8, workload="small"), measured(200.3, 160.0, workload="large")))
    story.test(timed(store, wide, both)).close(Outcome.KEPT, "regressed on large (0.799x)")
    return story.add(StateChanged(SessionState.STOPPED, "stopped by a person")).publish()


def branched_story(store: Store) -> Story:
    """Return twelve steps: two branches from the first kernel, the second one overtakes; attempts that led nowhere."""
    story = Story(store).begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    keys: dict[int, str] = {}

    def step(idea: str, us: float | None, parent: int, author: Author = Author.MODEL, *, promote: bool = True) -> None:
        number = story.steps + 1
        story.base = keys.get(parent)
        keys[number] = key = story.propose(f"{ONE_PASS}// {number}\n", idea, plan="A plan.", author=author)
        if us is None:
            story.test(race(store, key)).close(Outcome.FAILED, "race on partial")
            return
        story.test(timed(store, key, Performance((measured(us, us + 8),)), registers=24 + number))
        story.close(Outcome.PROMOTED if promote else Outcome.KEPT)

    step("one block a row, three passes", 171.8, 0, Author.PLAYBOOK)
    step("no barriers", None, 1)
    step("online maximum and sum in one pass", 152.4, 1)
    step("128-bit loads", 149.1, 3, promote=False)
    story.add(Decided(Decision(DecisionKind.BRANCH, story.seq, step=1)))
    step("two rows in flight", 160.3, 1, promote=False)
    step("two rows in flight, shuffles only", None, 5)
    step("two rows in flight, 128-bit loads", 146.0, 5, Author.PERSON)
    step("cp.async, two stages", 139.8, 7)
    story.add(Decided(Decision(DecisionKind.REWIND, story.seq, step=3)))
    step("one pass, cluster of two", None, 3)
    step("one pass, unrolled by four", 147.7, 3, promote=False)
    story.add(Decided(Decision(DecisionKind.REWIND, story.seq, step=8)))
    step("cp.async, three stages", 131.2, 8)
    step("cp.async, four stages", 131.4, 11, promote=False)
    return story.add(StateChanged(SessionState.STOPPED, "stopped by a person")).publish()


def matmul_story(store: Store) -> Story:
    """Play one timed step of a compute-bound problem on two workloads, short enough on the second for graph replay."""
    story = Story(store, problem="matmul_square").begin(held=True, executor=ExecutorKind.GPU, device="NVIDIA H200")
    key = story.propose(KERNEL, "128x128x16 tiles, three stages")
    workloads = []
    for name, size, us in (("benchmark", 4096, 2731.0), ("small", 256, 11.8)):
        flops, moved = 2 * size**3, 12 * size**2
        bound = Bound("graph", moved, flops, "fp32", 1e6 * moved / COPY_BYTES_PER_S, 1e6 * flops / FP32_FLOPS_PER_S)
        method = "events" if us > 20 else "graph replay"
        candidate, library = timing(CANDIDATE, us, method=method), timing("torch.mm", us * 0.982, method=method)
        hot = conditions(sm_clock_mhz=(1395, 1980), temperature_c=(61, 78), throttled=("power cap",), other_processes=1,
                         lock_wait_s=12.4)  # fmt: skip
        workloads.append(
            WorkloadPerformance(name, (candidate, library), (speedup(library, candidate),), (), NOISE, hot,
                                (bound, replace(bound, kind="compulsory")), None)
        )  # fmt: skip
    story.test(timed(store, key, Performance(tuple(workloads)), registers=168))
    return story.gate(Gate.PROMOTION, key).publish()


def long_gpu_story(store: Store, steps: int) -> Story:
    """Return many timed steps, for measuring the page."""
    story = Story(store).begin(held=True, max_steps=steps + 5, executor=ExecutorKind.GPU, device="NVIDIA H200")
    for number in range(steps):
        key = story.propose(ONE_PASS + f"// {number}\n", f"idea {number}: a little more of everything", plan="A plan.")
        if number % 4 == 3:
            story.test(race(store, key)).close(Outcome.FAILED, "wrong")
            continue
        took = 131.0 + 60.0 * 0.98**number + number % 5
        performance = Performance((measured(took, took + 1),), profile(took, 32, 80.0) if number % 8 == 0 else None)
        story.test(timed(store, key, performance, registers=24 + number % 40)).promote(key)
    return story.publish()
