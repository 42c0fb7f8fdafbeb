"""The mutation score: how many wrong variants of right kernels the judge catches.

    python -m benchmarks.judge.mutation        # on the emulator; again to go on where it stopped
    python -m benchmarks.judge.mutation --again survivors        # try those again that a changed judge may catch now
    python -m benchmarks.judge.mutation --executor gpu        # those proved different, on this machine's GPU
    python -m benchmarks.judge.mutation --only /existing --name mutation_serving  # all of the serving problems' kernels

1. Mutants of the playbook's kernels for every built-in problem and of `tests/data/kernels`, in a fixed order that takes
   kinds and kernels in turns, until enough of them are proved different (`cutegen_core.evaluate.mutation`).
2. Each result is a line of `results/mutation.jsonl` before the next one begins; the last line of a mutant counts.
3. `results/mutation.json` has the score by kind, and every survivor with how it differs and why it survived; of those
   not proved different, the ones that were looked at (`mutation_reasons.json`, by hand).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.conditions import RESULTS, Rows, write
from benchmarks.crosscheck import corpus
from benchmarks.crosscheck.corpus import Case
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.mutation.mutants import Mutant, find_mutants
from cutegen_core.evaluate.mutation.oracle import Oracle, Proof, widen
from cutegen_core.evaluate.mutation.study import MutantOutcome, try_mutant, try_original
from cutegen_core.evaluate.stages.watch import SilentWatch
from cutegen_core.evaluate.timing.timer import Timer
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.forks import CompileLimits
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.execute.executors.gpu import GpuExecutor
from cutegen_core.execute.port import Executor
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.machine.device import choose_device
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import CutegenError, MachineError, UsageError
from cutegen_core.records.trial import Status, Trial

Row = dict[str, Any]
SEED, ORACLE_SEED = 20_261_122, 918_273_645
RUN_TIMEOUT_S = 4.0
LIMITS = CompileLimits(seconds=45.0)
"""Shorter than a session's: the rule is the same, the waiting for endless mutants shorter."""
REASONS = Path(__file__).parent / "mutation_reasons.json"
_LONGEST = 200
_DIFFERENT = (MutantOutcome.CAUGHT, MutantOutcome.SURVIVED)


class PlannedMutant(NamedTuple):
    """A mutant to try, and the kernel it comes from."""

    case: Case
    mutant: Mutant

    @property
    def key(self) -> str:
        return f"{self.case.name}:{content_key(self.mutant.text)[:12]}"


class Tools:
    """One compiler, one executor and one reference worker for all kernels; on a GPU one judge at a time."""

    def __init__(self, executor: str) -> None:
        self.on_gpu = executor == "gpu"
        self.executor: Executor = GpuExecutor() if self.on_gpu else CpuExecutor(build_timeout_s=LIMITS.seconds)
        self.device = choose_device(None if self.on_gpu else "sm_90a")
        self.compiler = Compiler(self.device.arch, limits=LIMITS)
        self.scratch = Path(tempfile.mkdtemp(prefix="cutegen-mutation-"))
        self.worker = start_worker(self.scratch)
        self._references: dict[str, tuple[Reference, Reference]] = {}
        self._timed: tuple[str, Timer] | None = None
        self.executor.prepare(lambda line: print(line, flush=True))

    def references(self, case: Case) -> tuple[Reference, Reference]:
        """Return the problem's reference, and the one with the oracle's values."""
        if case.problem not in self._references:
            problem, folder = corpus.problem_of(case), self.scratch / Path(case.problem).stem
            self._references[case.problem] = (
                Reference(problem, folder / "judge", worker=self.worker),
                Reference(widen(problem), folder / "oracle", worker=self.worker),
            )
        return self._references[case.problem]

    def evaluator(self, case: Case) -> Evaluator:
        reference = self.references(case)[0]
        return Evaluator(
            reference.problem, reference, self.executor, self.compiler, self.device, content_key,
            self._timer(case.problem, reference) if self.on_gpu else None, RUN_TIMEOUT_S,
        )  # fmt: skip

    def _timer(self, problem: str, reference: Reference) -> Timer:
        if self._timed is None or self._timed[0] != problem:
            self._end_timer()
            self._timed = (problem, Timer(reference, self.device))
        return self._timed[1]

    def _end_timer(self) -> None:
        if self._timed:
            self._timed[1].close()
            self._timed = None

    def close(self) -> None:
        self._end_timer()
        self.executor.close()
        self.worker.close()
        self.compiler.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Kernel:
    """One kernel of the corpus: whether it passes, and its oracle, each found when first asked for."""

    def __init__(self, tools: Tools, case: Case) -> None:
        self._tools, self.case = tools, case

    @cached_property
    def source(self) -> str:
        return corpus.source_of(self.case, self._tools.references(self.case)[0])

    @cached_property
    def baseline(self) -> Trial | str:
        """Its trial, or why its mutants cannot be judged here."""
        try:
            return try_original(self.evaluator, self.source, SEED, SilentWatch())
        except (UsageError, MachineError) as error:
            return str(error)[:_LONGEST]

    @property
    def evaluator(self) -> Evaluator:
        return self._tools.evaluator(self.case)

    @cached_property
    def oracle(self) -> Oracle:
        return Oracle(self.evaluator, self._tools.references(self.case)[1], self.source, ORACLE_SEED)

    def find_difference(self, source: str) -> Proof | None:
        return self.oracle.find_difference(source)


class MutantRows(Rows):
    """The rows of mutants, counted by outcome."""

    def count(self, *outcomes: MutantOutcome) -> int:
        return sum(row["outcome"] in outcomes for row in self.by_key.values())


def plan(kernels: Iterable[Kernel]) -> Iterator[PlannedMutant]:
    """Yield all mutants: one of each kind in turn, and within a kind one of each kernel in turn."""
    by_kind: dict[str, list[tuple[int, str, PlannedMutant]]] = defaultdict(list)
    for kernel in kernels:
        rank: Counter[str] = Counter()
        mixed = sorted(find_mutants(kernel.source), key=lambda m: content_key(m.text))
        for mutant in mixed:
            rank[mutant.kind] += 1
            key = content_key(kernel.case.name + mutant.text)
            by_kind[mutant.kind].append((rank[mutant.kind], key, PlannedMutant(kernel.case, mutant)))
    turns = [sorted(found, key=lambda one: one[:2]) for _, found in sorted(by_kind.items())]
    for number in range(max(map(len, turns), default=0)):
        for turn in turns:
            if number < len(turn):
                yield turn[number][2]


def try_all(
    planned: Iterable[PlannedMutant], kernels: Mapping[str, Kernel], rows: MutantRows, proofs: Mapping[str, str],
    asked: argparse.Namespace,
) -> None:  # fmt: skip
    """Try mutants until enough are proved different, or the time is over."""
    deadline = time.monotonic() + asked.seconds
    for one in planned:
        if time.monotonic() > deadline:
            print(f"out of time after {asked.seconds:g} s: run the same command again", flush=True)
            return
        if not asked.again and rows.count(*_DIFFERENT) >= asked.until:
            return
        kernel = kernels[one.case.name]
        if (one.key in rows.by_key and not asked.again) or isinstance(kernel.baseline, str):
            continue
        try:
            find = partial(_known_proof, proofs[one.key]) if proofs else kernel.find_difference
            found = try_mutant(kernel.evaluator, find, kernel.baseline, one.mutant, SEED)
        except CutegenError as error:  # it stays without a row, and is tried again next time
            print(f"      {type(error).__name__}: {one.key}: {str(error)[:_LONGEST]}", flush=True)
            continue
        row = {"key": one.key, "kernel": one.case.name, **asdict(found), "seconds": round(found.seconds, 2)}
        rows.add(row | {name: row[name][:_LONGEST] for name in ("message", "proof")})
        print(f"{found.seconds:6.1f} s  {found.outcome:20} {found.status:20} {one.case.name}:{found.name}", flush=True)


def _known_proof(text: str, _: str) -> Proof | None:
    """Return the proof that the emulator's study found."""
    return Proof("emulator", Status.INCORRECT_NUMERICAL, text) if text else None


def summary(rows: Sequence[Row], left_out: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the score, by kind; what became of the others; every survivor with its reason."""
    reasons = json.loads(REASONS.read_text()) if REASONS.exists() else {}
    caught, survived = (sum(r["outcome"] == o for r in rows) for o in _DIFFERENT)
    return {
        "different": caught + survived,
        "caught": caught,
        "score": round(caught / max(1, caught + survived), 4),
        "others": {o: sum(r["outcome"] == o for r in rows) for o in MutantOutcome if o not in _DIFFERENT},
        "kinds": {kind: _counts(r for r in rows if r["kind"] == kind) for kind in sorted({r["kind"] for r in rows})},
        "caught_as": dict(Counter(r["status"] for r in rows if r["outcome"] == MutantOutcome.CAUGHT).most_common()),
        "kernels": len({r["kernel"] for r in rows}),
        "left_out": left_out,
        "survivors": [
            _edit_of(r) | {"proof": r["proof"], "reason": reasons.get(_name_of(r), "")}
            for r in rows if r["outcome"] == MutantOutcome.SURVIVED
        ],
        "not_proved": [
            _edit_of(r) | {"reason": reasons[_name_of(r)]}
            for r in rows if r["outcome"] == MutantOutcome.NOT_PROVED and _name_of(r) in reasons
        ],
    }  # fmt: skip


def _name_of(row: Row) -> str:
    return f"{row['kernel']}:{row['name']}"


def _edit_of(row: Row) -> Row:
    return {name: row[name] for name in ("kernel", "name", "before", "after")}


def _counts(rows: Iterable[Row]) -> Mapping[str, int]:
    outcomes = Counter(row["outcome"] for row in rows)
    return {"different": sum(outcomes[o] for o in _DIFFERENT), "caught": outcomes[MutantOutcome.CAUGHT]}


def show(found: Mapping[str, Any]) -> None:
    """Print kind x caught."""
    for kind, counts in found["kinds"].items():
        print(f"{kind:12} {counts['caught']:4} of {counts['different']:4}")
    print(f"{'all':12} {found['caught']:4} of {found['different']:4}: {found['score']:.1%}; beside them: ", end="")
    print(", ".join(f"{count} {name}" for name, count in found["others"].items()))


def main() -> None:
    asked = _arguments()
    part, parts = (int(n) for n in asked.shard.split("/"))
    name = asked.name + ("_gpu" if asked.executor == "gpu" else "") + (f"-{part}" if parts > 1 else "")
    rows, tools = MutantRows(RESULTS / f"{name}.jsonl"), Tools(asked.executor)
    try:
        kernels = {
            case.name: Kernel(tools, case) for case in corpus.cases() if not case.defect and _wanted(case, asked)
        }
        planned = list(plan(kernels.values()))
        proofs: dict[str, str] = {}
        if asked.executor == "gpu":
            emulated = MutantRows(RESULTS / f"{asked.name}.jsonl").by_key.values()
            proofs = {r["key"]: r["proof"] or r["message"] for r in emulated if r["outcome"] in _DIFFERENT}
            planned = sorted((p for p in planned if p.key in proofs), key=lambda p: p.case.problem)
        if asked.again:
            chosen = {k for k, r in rows.by_key.items() if r["outcome"] == asked.again}
            planned = [p for p in planned if p.key in chosen]
        planned = planned[part::parts]
        try_all(planned, kernels, rows, proofs, asked)
        tried = {name: vars(kernel).get("baseline") for name, kernel in kernels.items()}
        left_out = {name: reason for name, reason in tried.items() if isinstance(reason, str)}
    finally:
        tools.close()
    known = {p.key for p in planned} if not asked.again else rows.by_key.keys()
    found = summary([row for key, row in rows.by_key.items() if key in known], left_out)
    show(found)
    write(name, found)


def _wanted(case: Case, asked: argparse.Namespace) -> bool:
    return not asked.only or any(word in case.name for word in asked.only)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executor", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--until", type=int, default=650, help="stop after so many mutants proved different")
    parser.add_argument("--seconds", type=float, default=86_400.0, help="begin no further mutant after this time")
    parser.add_argument("--only", nargs="*", default=[], help="kernels whose name contains one of these")
    parser.add_argument("--name", default="mutation", help="of the result files; rows of another study stay apart")
    parser.add_argument("--shard", default="0/1", help="1/4: every fourth from the second on, in a file of its own")
    outcomes = {"survivors": MutantOutcome.SURVIVED, "not-proved": MutantOutcome.NOT_PROVED}
    parser.add_argument("--again", choices=(*outcomes, ""), default="", help="try only these again, with today's judge")
    asked = parser.parse_args()
    asked.again = outcomes.get(asked.again, "")
    return asked


if __name__ == "__main__":
    main()
