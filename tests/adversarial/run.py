r"""Tries the corpus on one executor and writes what came of it; one command, resumable, no pytest needed.

    python -m tests.adversarial.run --executor cpu --results benchmarks/results/adversarial_emulator.json
    python -m tests.adversarial.run --compile-only --cubins .gpu/adversarial          # beforehand, without a GPU
    python -m tests.adversarial.run --executor gpu --cubins .gpu/adversarial \
        --results benchmarks/results/adversarial_h200.json

1. Cases whose row is in the results file already, for the same text and as expected, are passed over.
2. Each other one is a thorough trial with a fresh seed; its row is written before the next one begins.
3. The exit status is 1 when a hostile kernel passed, an honest one was blocked, or the evidence is not what it must be.
A machine that fails at one case is a row, too ("MACHINE_ERROR"); the next case gets a fresh bench.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import randbits
from typing import Any

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.screening import screen
from cutegen_core.machine import toolchain
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import CutegenError, KernelFileError
from cutegen_core.records.trial import Status
from tests.adversarial.bench import ARCH, Bench, Cubins
from tests.adversarial.case import Case, evidence, judged
from tests.adversarial.corpus import applying

Row = dict[str, Any]
MACHINE_ERROR = "MACHINE_ERROR"
_LONGEST_EVIDENCE = 600


def main() -> int:
    asked = _arguments()
    if asked.compile_only:
        compile_only(Path(asked.cubins), asked.jobs)
        return 0
    chosen = [case for case in applying(asked.executor) if not asked.only or any(w in case.name for w in asked.only)]
    part, parts = (int(n) for n in asked.shard.split("/"))
    if asked.executor == "gpu":  # one judge a problem, which takes seconds to start
        chosen.sort(key=lambda case: case.problem)
    results = Results(Path(asked.results), asked.executor)
    try_all(chosen[part::parts], asked.executor, results, Path(asked.cubins) if asked.cubins else None, asked.seconds)
    return results.report(len(chosen[part::parts]))


def try_all(cases: Sequence[Case], executor: str, results: Results, cubins: Path | None, seconds: float) -> None:
    """Try every case not yet in the results, until `seconds` have passed."""
    deadline = time.monotonic() + seconds
    bench: Bench | None = None
    try:
        for case in cases:
            if results.has(case):
                continue
            if time.monotonic() > deadline:
                print(f"out of time after {seconds:g} s: run the same command again", flush=True)
                return
            bench = bench or Bench(executor, cubins)
            row = one(bench, case)
            results.add(case, row)
            if row["status"] == MACHINE_ERROR:
                bench.close()
                bench = None
    finally:
        if bench:
            bench.close()


def one(bench: Bench, case: Case) -> Row:
    """Return one trial as a row: verdict, what was expected and is not there, evidence, seconds, seed."""
    seed, begun = randbits(31), time.monotonic()
    try:
        trial = bench.evaluate(case, seed)
    except CutegenError as error:
        status, wrong, text, stage = MACHINE_ERROR, (f"{type(error).__name__}",), str(error), ""
    else:
        status, wrong, text = str(trial.status), judged(case, trial), evidence(trial)
        stage = str(trial.failed_stage or "")
    return {
        "status": status, "stage": stage, "wrong": list(wrong), "evidence": text[:_LONGEST_EVIDENCE], "seed": seed,
        "seconds": round(time.monotonic() - begun, 2),
    }  # fmt: skip


class Results:
    """The file of rows; rewritten as a whole after each one, so that it is complete whenever the run is cut off."""

    def __init__(self, path: Path, executor: str) -> None:
        self._path, self._executor = path, executor
        self.rows: dict[str, Row] = {}
        if path.exists():
            kept = json.loads(path.read_text())["rows"]
            sources = {case.name: _source(case) for case in applying(executor)}
            self.rows = {name: row for name, row in kept.items() if row["source"] == sources.get(name)}

    def has(self, case: Case) -> bool:
        """Tell whether there is nothing to do: a row that was not as expected is tried again."""
        return case.name in self.rows and not self.rows[case.name]["wrong"]

    def add(self, case: Case, row: Row) -> None:
        kind = "hostile" if case.hostile else "honest"
        self.rows[case.name] = {"kind": kind, "story": case.story, "source": _source(case), **row}
        mark = "    " if not row["wrong"] else "BAD "
        print(f"{mark}{row['seconds']:6.1f} s  {row['status']:20} {case.name}  {'; '.join(row['wrong'])}", flush=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps({"conditions": conditions(self._executor), **self.summary(), "rows": self.rows},
                                      indent=1) + "\n")  # fmt: skip
        partial.replace(self._path)

    def summary(self) -> Mapping[str, Any]:
        """Return the counts; UNSUPPORTED honest kernels are counted apart."""
        hostile = [r for r in self.rows.values() if r["kind"] == "hostile"]
        honest = [r for r in self.rows.values() if r["kind"] == "honest"]
        return {
            "hostile": len(hostile),
            "hostile_given_passed": sum(r["status"] == Status.PASSED for r in hostile),
            "honest": len(honest),
            "honest_passed": sum(r["status"] == Status.PASSED for r in honest),
            "honest_unsupported": sum(r["status"] == Status.UNSUPPORTED for r in honest),
            "honest_blocked": sum(r["status"] not in (Status.PASSED, Status.UNSUPPORTED) for r in honest),
            "not_as_expected": sorted(name for name, r in self.rows.items() if r["wrong"]),
            "seconds": round(sum(r["seconds"] for r in self.rows.values()), 1),
        }

    def report(self, wanted: int) -> int:
        """Print the counts; return the exit status."""
        found = self.summary()
        print(json.dumps(found, indent=1), flush=True)
        return int(bool(found["not_as_expected"]) or len(self.rows) < wanted)


def _source(case: Case) -> str:
    return content_key(case.source)[:16]


def conditions(executor: str) -> Mapping[str, Any]:
    """Return the machine a row was made on."""
    machine: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "executor": executor, "cores": os.cpu_count(),
        "python": platform.python_version(), "kernel": platform.release(), "toolchain": dict(_versions()),
    }  # fmt: skip
    if executor == "gpu":
        from dataclasses import asdict

        from cutegen_core.machine.device import choose_device

        machine["device"] = asdict(choose_device(None))
    return machine


def _versions() -> Iterator[tuple[str, str]]:
    yield from sorted(toolchain.installed_versions().items())


def compile_only(folder: Path, jobs: int) -> None:
    """Compile every kernel a GPU will be asked about and keep the results in `folder`; needs no GPU."""
    compilers = [Compiler(ARCH) for _ in range(jobs)]
    cases = [case for case in applying("gpu") if not case.limited and _compiles(case)]

    def share(number: int) -> None:
        cubins = Cubins(compilers[number], folder)
        for case in cases[number::jobs]:
            kernel = parse(case.source)
            result = cubins.compile(kernel, kernel.defaults())
            print(f"{result.seconds:5.1f} s  {result.status:14} {case.name}", flush=True)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(share, range(jobs)))
    finally:
        for compiler in compilers:
            compiler.close()
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{len(cases)} kernels, {size / 1e6:.1f} MB in {folder}")


def _compiles(case: Case) -> bool:
    """Tell whether it gets as far as a compiler."""
    try:
        return not screen(parse(case.source))
    except KernelFileError:
        return False


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--results", default="adversarial.json", help="JSON file of rows; picked up where it stopped")
    parser.add_argument("--cubins", help="folder of compiled kernels")
    parser.add_argument("--compile-only", action="store_true", help="fill --cubins and end")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time (--compile-only)")
    parser.add_argument("--shard", default="0/1", help="this part of so many")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name holds one of these")
    parser.add_argument("--seconds", type=float, default=520.0, help="begin no further case after this time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
