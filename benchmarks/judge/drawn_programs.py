"""References drawn at random, or of files: whether the playbook's last kernel for each passes COMPILE and TEST.

    python -m benchmarks.judge.drawn_programs [--executor gpu] [--of small] [--first 0] [--limit-s 150] [--processes 12]
        [--name NAME] [FOLDER ...]

`tests/propose/playbook/drawn.py` draws them: small ones, wide ones, which also have whole numbers, doubles, writes to
parts and much else, and long ones, whose rows have 20,000 to 300,000 elements: for a GPU.
What is neither right nor refused by name is printed with its reference, and the command ends with 1. The result file
has the counts, and these.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from secrets import randbits
from typing import Any

from benchmarks.conditions import write
from benchmarks.trials import files_of, open_evaluator
from cutegen_core.machine.device import choose_device
from cutegen_core.problems.library import load
from cutegen_core.propose import playbook
from cutegen_core.propose.playbook import NotInPlaybook
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import ExecutorKind
from cutegen_core.trajectory.store import Store
from cutegen_core.wiring import Tools
from tests.propose.playbook.drawn import RANGES, draw

RIGHT, REFUSED, NOT_RUN = NO_FAULTS = "right", "refused", "its reference does not run"


@dataclass(frozen=True)
class Share:
    """The programs that one process tries, until `deadline`: files, or drawn ones, every `step`-th from `first` on."""

    first: int
    step: int
    deadline: float
    executor: ExecutorKind
    of: str
    files: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Judged:
    """The verdict on one program, with its source where that is a fault."""

    number: int | str
    verdict: str
    message: str = ""
    source: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", type=ExecutorKind, default=ExecutorKind.CPU)
    parser.add_argument("folders", nargs="*", help="with problem files; none: drawn programs")
    parser.add_argument("--of", choices=tuple(RANGES), default="small", help="the kind of programs")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--limit-s", type=float, default=150.0, help="no program is begun after this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--name", default="drawn_programs", help="of the file with the results")
    chosen = parser.parse_args()
    deadline, many = time.monotonic() + chosen.limit_s, chosen.processes
    files = files_of(chosen.folders)
    many = min(many, len(files)) if files else many
    shares = [Share(chosen.first + k, many, deadline, chosen.executor, chosen.of, files[k::many]) for k in range(many)]
    with ProcessPoolExecutor(many, mp_context=get_context("spawn")) as pool:
        parts = pool.map(_try_share, shares)
        found = sorted((one for part in parts for one in part), key=lambda one: f"{one.number:>9}")
    faults = [asdict(one) for one in found if one.verdict not in NO_FAULTS]
    for fault in faults:
        print(fault["number"], fault["verdict"], fault["message"], fault["source"], sep="\n")
    counts = Counter(one.verdict for one in found)
    print(dict(counts))
    asked: dict[str, Any] = {"executor": chosen.executor, "of": chosen.of, "first": chosen.first}
    if files:
        asked = {
            "executor": chosen.executor,
            "of": [Path(folder).name for folder in chosen.folders],
            "files": len(files),
        }
    write(chosen.name, {**asked, "device": asdict(choose_device(None)), "counts": counts, "faults": faults})
    sys.exit(1 if faults else 0)


def _try_share(share: Share) -> list[Judged]:
    with tempfile.TemporaryDirectory(prefix="cutegen-bench-") as folder:
        store = Store(Path(folder) / "store.db")
        tools = Tools(store)
        try:
            return list(_tried(share, store, tools))
        finally:
            tools.close()
            store.close()


def _tried(share: Share, store: Store, tools: Tools) -> Iterator[Judged]:
    for number, make in _programs(share):
        if time.monotonic() > share.deadline:
            return
        source = ""
        try:
            problem = make()
            source = problem.source
            verdict, message = _verdict(problem, share.executor, store, tools)
        except NotInPlaybook as refused:
            verdict, message = REFUSED, str(refused)
        except ProblemError as error:  # long rows times themselves take more memory than a reference may use
            verdict, message = NOT_RUN, str(error)
        except Exception as error:  # noqa: BLE001 - a fault to be told with its reference
            verdict, message = "error", repr(error)
        yield Judged(number, verdict, message, "" if verdict in NO_FAULTS else source)


def _programs(share: Share) -> Iterator[tuple[int | str, Callable[[], Problem]]]:
    if share.files:
        yield from ((label, partial(load, file)) for label, file in share.files)
    else:
        yield from ((number, partial(draw, number, RANGES[share.of])) for number in count(share.first, share.step))


def _verdict(problem: Problem, executor: ExecutorKind, store: Store, tools: Tools) -> tuple[str, str]:
    """Return the verdict on the playbook's last kernel, which is written for this device."""
    evaluator = open_evaluator(store, tools, problem, executor, timed=False)
    reference, (own, *others) = evaluator.reference, problem.workloads
    variants = playbook.propose(
        reference.graph(own), reference.signature(own), "drawn", playbook.Target.of(evaluator.device, problem),
        others=[(reference.graph(other), reference.signature(other)) for other in others],
    )  # fmt: skip
    trial = evaluator.evaluate(Candidate(variants[-1].source, Author.PERSON), seed=randbits(31))
    return RIGHT if trial.passed else str(trial.status), trial.message


if __name__ == "__main__":
    main()
