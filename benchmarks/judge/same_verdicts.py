"""The same verdict whoever else works on the machine: 50 kernels of every kind, tried again and again.

1. Each kernel keeps one seed. It is tried under four conditions: the emulator sees one processor or two (it starts a
   worker for each), and the two processors of a shard are idle otherwise or busy. Busy: 8 trials at once beside 8
   processes that only compute, so 16 processes share the two processors.
2. Status and findings (kind, variable, line) must be the same every time. Where an endless loop is when its time is up
   is no part of that. Whether every word of the evidence is the same is counted apart.
3. A shard writes its file after every trial; the same command again does what is missing. `--merge` puts the files
   of a folder together.

    python -m benchmarks.judge.same_verdicts --shard 0/8 --out FOLDER       # to 7/8, at the same time
    python -m benchmarks.judge.same_verdicts --merge --out FOLDER           # writes results/same_verdicts.json

Endless kernels are stopped after one second of processor time. Kernels that exceed a limit of the compiler are left
out: they take 15 seconds a trial.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.conditions import RESULTS, conditions, write
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import CutegenError
from tests.adversarial.bench import Bench
from tests.adversarial.case import evidence
from tests.adversarial.corpus import named

LANES = 8
BURNERS = 8
SEED = 20261122
RUN_TIMEOUT_S = 1.0

# With the seconds that a trial takes once it is built, on one core of the machine where this was written.
KERNELS: Mapping[str, float] = {
    # elementwise
    "naive": 1.0, "grid stride": 0.9, "bfloat16 in pairs": 0.5, "an empty output": 0.8, "more blocks than work": 0.9,
    "fast_functions: right": 0.3, "a triangle's zeros are skipped": 0.6,
    # reductions, shared memory, copies
    "shuffles": 1.0, "a tree in shared memory": 0.9, "several kernels with scratch": 0.6, "online softmax": 1.2,
    "long_scan: right": 0.3, "masked_select: right": 0.2, "offsets in order": 0.5, "transposition with padding": 0.9,
    "double buffer": 1.4,
    # blocks that work together
    "last block": 0.5, "last block, volatile reads": 0.5, "a lock between blocks": 0.4, "histogram with atomics": 0.2,
    "atomics, declared": 0.7,
    # wrong values
    "zeros where small": 0.1, "a step of tanh.approx": 0.1, "LayerNorm with another epsilon": 0.1,
    "softmax: maximum not subtracted from the sum": 0.1, "largest of columns without the tail": 0.2,
    "max_reduction: fmaxf swallows NaN": 0.7, "gelu: odd beyond six": 0.4, "a grid with a lid": 0.4,
    "the first 512 rows": 0.4,
    # races, barriers, memory
    "the last block without a fence": 0.1, "a fence alone": 0.1, "a __device__ variable every thread writes": 0.1,
    "missing barrier": 0.1, "divergent barrier": 0.1, "no order between lanes": 0.1, "uninitialised shared memory": 0.1,
    "reads past the end at larger sizes only": 0.1, "splitk_scratch: scratch for one piece": 0.1, "writes inputs": 0.1,
    "arguments in another order": 0.1,
    # not the same twice, state, crashes, launches, limits
    "atomics in any order, undeclared": 0.1, "a last bit by the clock": 0.1, "keeps its result": 0.1, "trap": 0.1,
    "transpose: tile of 31 rows": 0.1, "more registers than a block has": 0.1,
    "static and dynamic shared memory together": 0.1, "waits for the next block": 0.2, "endless loop": 2.0,
}  # fmt: skip

Row = dict[str, Any]


class Condition(NamedTuple):
    """What the emulator sees of the machine."""

    workers: int
    busy: bool

    def __str__(self) -> str:
        return f"{self.workers} worker{'s' if self.workers > 1 else ''}, {'busy' if self.busy else 'idle'}"


CONDITIONS = tuple(Condition(*one) for one in product((1, 2), (False, True)))


class Found(NamedTuple):
    """One trial: what must not change, every word of the evidence, and the seconds on the clock."""

    verdict: str
    words: str
    seconds: float


class Lane:
    """A process that tries one kernel after the other, with a torch worker of its own."""

    def __init__(self, cpus: Sequence[int], first: int) -> None:
        self._asks, theirs = multiprocessing.Pipe()
        self._cpus = [cpus[first], cpus[1 - first]]
        self._process = multiprocessing.Process(target=_serve, args=(theirs, self._asks), daemon=True)
        self._process.start()
        theirs.close()

    def try_one(self, name: str, workers: int) -> Found:
        self._asks.send((name, self._cpus[:workers]))
        return Found(*self._asks.recv())

    def close(self) -> None:
        self._asks.close()
        self._process.join()


class Results:
    """The file of a shard: for each kernel and condition the verdicts, and how often each was given."""

    def __init__(self, path: Path, kernels: Sequence[str]) -> None:
        self._path = path
        self._conditions = conditions()
        self._lock = threading.Lock()
        kept = json.loads(path.read_text())["rows"] if path.exists() else {}
        self.rows: dict[str, dict[str, Row]] = {name: kept.get(name, {}) for name in kernels}

    def missing(self, name: str, condition: Condition, repeats: int) -> int:
        return repeats - sum(self.rows[name].get(str(condition), {"verdicts": {}})["verdicts"].values())

    def add(self, name: str, condition: Condition, found: Found) -> None:
        with self._lock:
            row = self.rows[name].setdefault(str(condition), {"seconds": 0.0, "verdicts": {}, "words": {}})
            row["seconds"] = round(row["seconds"] + found.seconds, 2)
            row["verdicts"] = Counter(row["verdicts"]) + Counter([found.verdict])
            row["words"] = Counter(row["words"]) + Counter([found.words])
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps({"conditions": self._conditions, "rows": self.rows}, indent=1) + "\n")
            part.replace(self._path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge.same_verdicts")
    parser.add_argument("--kernels", type=int, default=len(KERNELS))
    parser.add_argument("--repeats", type=int, default=20, help="of each kernel under each of the four conditions")
    parser.add_argument("--shard", default="0/1", help="1/8: the second of eight; it takes processors 2 and 3")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the shards' files")
    parser.add_argument("--merge", action="store_true")
    chosen = parser.parse_args()
    if chosen.merge:
        sys.exit(merge(chosen.out, chosen.repeats))
    part, parts = (int(n) for n in chosen.shard.split("/"))
    chosen.out.mkdir(parents=True, exist_ok=True)
    names = share(list(KERNELS)[: chosen.kernels], parts)[part]
    results = Results(chosen.out / f"same_verdicts-{part}.json", names)
    run(results, names, chosen.repeats, own_processors(part))
    sys.exit(differing(results.rows) > 0)


def share(names: Sequence[str], parts: int) -> list[list[str]]:
    """Give every part about the same work: the longest first, each to the part that has least."""
    shares: list[list[str]] = [[] for _ in range(parts)]
    for name in sorted(names, key=lambda name: -KERNELS[name]):
        min(shares, key=lambda one: sum(KERNELS[n] for n in one)).append(name)
    return shares


def own_processors(part: int) -> list[int]:
    """Keep this process and its children on two processors of the shard's own."""
    all_of_them = sorted(os.sched_getaffinity(0))
    own = all_of_them[2 * part : 2 * part + 2]
    if len(own) < 2:
        sys.exit(f"shard {part} needs processors {2 * part} and {2 * part + 1}; this machine has {len(all_of_them)}")
    os.sched_setaffinity(0, own)
    return own


def run(results: Results, names: Sequence[str], repeats: int, cpus: Sequence[int]) -> None:
    lanes = [Lane(cpus, number % 2) for number in range(LANES)]
    for condition in CONDITIONS:
        begun = time.monotonic()
        asked = [n for turn in range(repeats) for n in names if turn < results.missing(n, condition, repeats)]
        at_once = LANES if condition.busy else 3 - condition.workers  # idle: no processor has two trials
        with _burners(BURNERS if condition.busy else 0):
            _try_all(results, iter(asked), condition, lanes[:at_once])
        took = time.monotonic() - begun
        print(f"{condition}: {len(asked)} trials, {took:.0f} s, {differing(results.rows)} kernels differ", flush=True)
    for lane in reversed(lanes):  # a later one holds the earlier ones' pipes
        lane.close()


def _try_all(results: Results, names: Iterator[str], condition: Condition, lanes: Sequence[Lane]) -> None:
    """Let each lane take the next kernel whenever it has none; the first error of a lane ends all."""
    turn, errors = threading.Lock(), list[Exception]()

    def work(lane: Lane) -> None:
        while not errors:
            with turn:
                name = next(names, None)
            if name is None:
                return
            try:
                results.add(name, condition, lane.try_one(name, condition.workers))
            except (EOFError, OSError) as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        sys.exit(f"a lane ended: {errors[0]!r}. What was tried is kept; run the same command again.")


def _serve(asks: Connection, other_end: Connection) -> None:
    """Answer until the other end is closed, or its process is gone."""
    other_end.close()
    with Bench("cpu") as bench:
        while True:
            try:
                name, cpus = asks.recv()
            except EOFError:
                return
            os.sched_setaffinity(0, cpus)
            asks.send(_try(bench, name))


def _try(bench: Bench, name: str) -> Found:
    case, begun = named(name), time.monotonic()
    evaluator = bench.evaluator(case.problem, run_timeout_s=RUN_TIMEOUT_S)
    try:
        trial = evaluator.evaluate(Candidate(case.source, Author.PERSON), seed=SEED, thorough=case.watched, rough=True)
    except CutegenError as error:  # a busy machine must not be the kernel's fault, nor the session's
        return Found(f"{type(error).__name__}", str(error), time.monotonic() - begun)
    verdicts = trial.correctness.verdicts if trial.correctness else ()
    found = [finding for verdict in verdicts for finding in verdict.findings]
    findings = [f"{f.kind} {f.variable} line {'?' if f.kind == 'timeout' else f.line}" for f in found]
    return Found("; ".join([trial.status, *findings]), evidence(trial), time.monotonic() - begun)


@contextmanager
def _burners(count: int) -> Iterator[None]:
    started = [multiprocessing.Process(target=_burn, args=(os.getpid(),), daemon=True) for _ in range(count)]
    for one in started:
        one.start()
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.join()


def _burn(parent: int) -> None:
    while os.getppid() == parent:
        sum(range(100_000))


def differing(rows: Mapping[str, Mapping[str, Row]], what: str = "verdicts") -> int:
    """Count the kernels that have two verdicts, whatever the condition; or two texts, with `what` "words"."""
    return sum(len({one for row in by_condition.values() for one in row[what]}) > 1 for by_condition in rows.values())


def merge(folder: Path, repeats: int) -> int:
    """Put the shards of a folder together; return the exit status."""
    shards = [json.loads(file.read_text()) for file in sorted(folder.glob("same_verdicts-*.json"))]
    rows = {name: row for shard in shards for name, row in shard["rows"].items()}
    fewest, seconds = {}, {}
    for condition in map(str, CONDITIONS):
        each = [rows.get(name, {}).get(condition, {"verdicts": {}, "seconds": 0.0}) for name in KERNELS]
        fewest[condition] = min(sum(row["verdicts"].values()) for row in each)
        seconds[condition] = round(sum(row["seconds"] for row in each))
    every = [row for by_condition in rows.values() for row in by_condition.values()]
    counts = {
        "kernels": len(rows), "shards": len(shards), "trials": sum(sum(row["verdicts"].values()) for row in every),
        "fewest_repeats": fewest, "seconds_of_trials": seconds,
        "busy": f"{LANES} trials at once and {BURNERS} processes that compute, on two processors",
        "differing": differing(rows), "differing_in_words": differing(rows, "words"),
    }  # fmt: skip
    write("same_verdicts", {"measured_on": shards[0]["conditions"], **counts, "rows": rows})
    print(json.dumps(counts, indent=1))
    return int(min(fewest.values()) < repeats or differing(rows) > 0)


if __name__ == "__main__":
    main()
