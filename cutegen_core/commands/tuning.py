"""Tune one kernel file: find the best values of its declared parameters, outside of any session."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING

from cutegen_core.commands import arguments as given
from cutegen_core.commands import standalone
from cutegen_core.commands.arguments import Subcommands, add_command
from cutegen_core.records.errors import UsageError

if TYPE_CHECKING:
    from cutegen_core.evaluate.sweep import SweepRow, SweepTable


def add(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = add_command(subcommands, "tune", tune, "find the best values of a kernel file's parameters")
    parser.add_argument("file", type=Path, help="kernel file (.cu) whose [params] have values")
    given.add_problem(parser)
    parser.add_argument("--seed", type=given.seed, metavar="N", help="seed of the inputs (default: a fresh one)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the kernel file with the chosen values as its defaults"
    )


def tune(arguments: argparse.Namespace) -> int:
    """Sweep the parameters; exit code 0 if the chosen kernel passed.

    Raises:
        UsageError: there is nothing to tune, or no folder for the output.
    """
    data = standalone.read_kernel(arguments.file)
    if arguments.output and not arguments.output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {arguments.output}: there is no such folder")
    standalone.begin()
    # Imported while the fork server imports torch.
    from cutegen_core.checking import SweepNarrator
    from cutegen_core.evaluate.sweep import describe, sweep
    from cutegen_core.kernel.kernel_file import parse
    from cutegen_core.printing import print_json
    from cutegen_core.problems import library
    from cutegen_core.records import as_json
    from cutegen_core.records.candidate import Author, Candidate
    from cutegen_core.records.trial import Status

    kernel = parse(data)
    if not kernel.tunable:
        raise UsageError(f"{arguments.file} has nothing to tune: none of its [params] has several values")
    problem = library.load(arguments.problem)
    seed = randbits(31) if arguments.seed is None else arguments.seed
    with contextlib.ExitStack() as stack:
        evaluator = standalone.make_evaluator(problem, arguments, stack, once=False)
        table, tuned = sweep(evaluator, Candidate(kernel.text, Author.IMPORT), seed, SweepNarrator(arguments.json))
    if arguments.json:
        print_json({"result": describe(table), "sweep": as_json.to_plain(table), "source": tuned})
    else:
        print(*_lines(table), describe(table), sep="\n")
    if arguments.output:
        arguments.output.write_text(tuned)
    return 0 if table.rows[table.chosen].status is Status.PASSED else 1


def _lines(table: SweepTable) -> Iterator[str]:
    """Yield the points, the chosen one with a star."""
    yield f"  {'point':40} {'µs':>10} {'model':>6}  verdict"
    for place, row in enumerate(table.rows):
        yield f"{'*' if place == table.chosen else ' '} {_row(row)}".rstrip()
    yield from table.say_left_out()
    yield f"decided by {table.decided_by}"


def _row(row: SweepRow) -> str:
    from cutegen_core.evaluate.tuning.table import point_words

    us = row.latency_ms * 1e3 if row.latency_ms else row.raced_us[-1] if row.raced_us else None
    time, cost = f"{us:.4g}" if us else "-", f"{row.cost:.2f}" if row.cost else "-"
    said = " ".join(filter(None, (str(row.status) if row.status else "", row.message)))
    return f"{point_words(row.params):40} {time:>10} {cost:>6}  {said}"
