"""`python -m benchmarks.crosscheck emulate | gpu | report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.crosscheck.folder import Folder

DEFAULT = Path(".gpu") / "crosscheck"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crosscheck")
    parser.add_argument("part", choices=("emulate", "gpu", "report"))
    parser.add_argument("--folder", type=Path, default=DEFAULT)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--again", action="store_true", help="even what was done already")
    parser.add_argument("--results", type=Path, help="gpu: what it found; report: the same file")
    parser.add_argument("--limit-s", type=float, default=400.0, help="gpu: stop then; the next call goes on")
    chosen = parser.parse_args()
    if chosen.part == "emulate":
        _emulate(chosen)


def _emulate(chosen: argparse.Namespace) -> None:
    from benchmarks.crosscheck.corpus import cases
    from benchmarks.crosscheck.emulate import emulate

    picked = [case for case in cases() if chosen.only in case.name]
    emulate(picked, Folder(chosen.folder), lambda line: print(line, flush=True), again=chosen.again)


if __name__ == "__main__":
    main()
