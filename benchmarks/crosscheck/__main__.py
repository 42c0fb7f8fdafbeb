"""`python -m benchmarks.crosscheck emulate | gpu | report`."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from benchmarks.crosscheck.folder import Folder, verdict
from cutegen_core.records.trial import ExecutorKind

FOLDER = Path(".gpu") / "crosscheck"
RESULTS = FOLDER / "gpu.xz"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crosscheck")
    parser.add_argument("part", choices=("emulate", "gpu", "report"))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--again", action="store_true", help="even what was done already")
    parser.add_argument("--results", type=Path, default=RESULTS, help="what the GPU found")
    parser.add_argument("--executor", choices=("gpu", "cpu"), default="gpu", help="gpu: cpu tries the part without one")
    parser.add_argument("--limit-s", type=float, default=400.0, help="gpu: stop then; the next call goes on")
    chosen = parser.parse_args()
    {"emulate": _emulate, "gpu": _gpu, "report": _report}[chosen.part](chosen)


def _say(line: str) -> None:
    print(line, flush=True)


def _emulate(chosen: argparse.Namespace) -> None:
    from benchmarks.crosscheck.corpus import cases
    from benchmarks.crosscheck.emulate import emulate

    picked = [case for case in cases() if chosen.only in case.name]
    emulate(picked, Folder(chosen.folder), _say, again=chosen.again)


def _gpu(chosen: argparse.Namespace) -> None:
    from benchmarks.crosscheck.device import measure
    from cutegen_core.execute.executors.choice import make_executor

    executor = make_executor(ExecutorKind(chosen.executor))
    try:
        found = measure(Folder(chosen.folder), chosen.results, executor, _say, chosen.limit_s, chosen.only)
    finally:
        getattr(executor, "close", lambda: None)()
    print(Counter(str(verdict(record).status) for record in found.found.values()))
    for record in found.found.values():
        end = verdict(record)
        if end.status != "PASSED":
            print(f"{record.name:30} {end.status} {end.kind} {end.message[:110]}")


def _report(chosen: argparse.Namespace) -> None:
    from benchmarks.crosscheck.report import AGREE, report

    rows = report(Folder(chosen.folder), chosen.results)
    print(Counter(row.agreement for row in rows))
    for row in rows:
        if row.agreement != AGREE:
            print(f"{row.name:30} {row.agreement}: emulator {row.emulator}, GPU {row.gpu}; {row.beyond} beyond")


if __name__ == "__main__":
    main()
