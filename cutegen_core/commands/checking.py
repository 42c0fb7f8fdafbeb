"""Check one kernel file: by the engine, if one runs, else in this process.

Scripts and coding agents live in this loop, so nothing is imported before it is needed, and torch, which takes longest,
begins first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from cutegen_core.commands import arguments as given
from cutegen_core.commands import standalone
from cutegen_core.commands.arguments import Subcommands, add_command
from cutegen_core.engine import asking
from cutegen_core.records.check import CheckRequest


def add(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = add_command(subcommands, "check", check, "run one kernel file through the stages")
    parser.add_argument("file", type=Path, help="kernel file (.cu)")
    given.add_problem(parser)
    parser.add_argument("--seed", type=given.seed, metavar="N", help="seed of the inputs (default: a fresh one)")


def check(arguments: argparse.Namespace) -> int:
    request = CheckRequest(
        standalone.read_kernel(arguments.file), arguments.problem, os.getcwd(), arguments.executor or "",
        arguments.arch or "", arguments.seed, arguments.json,
    )  # fmt: skip
    answer = asking.ask(request, lambda line: _say(line, arguments)) or _check_alone(request, arguments)
    print(answer.text)
    return 0 if answer.passed else 1


def _say(line: str, arguments: argparse.Namespace) -> None:
    if not arguments.json:
        print(line, file=sys.stderr)


def _check_alone(request: CheckRequest, arguments: argparse.Namespace) -> asking.CheckAnswer:
    standalone.begin()
    # Imported while the fork server imports torch.
    from cutegen_core import checking
    from cutegen_core.evaluate.evaluator import Evaluator
    from cutegen_core.records.problem import Problem

    with contextlib.ExitStack() as stack:

        def evaluator_of(problem: Problem) -> Evaluator:
            return standalone.make_evaluator(problem, arguments, stack, once=True)

        trial = checking.check(request, evaluator_of, checking.Narrator(arguments.json))
        return asking.CheckAnswer(checking.to_print(trial, request), trial.passed)
