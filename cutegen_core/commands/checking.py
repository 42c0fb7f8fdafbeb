"""Check one kernel file: by the engine, if one runs, else in this process.

Scripts and coding agents live in this loop, so nothing is imported before it is needed, and torch, which takes longest,
begins first.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

from cutegen_core.commands import arguments as given
from cutegen_core.commands.arguments import Subcommands, add_command
from cutegen_core.engine import asking
from cutegen_core.judge.reference_process import PROGRAM
from cutegen_core.machine import forking
from cutegen_core.records.check import CheckRequest
from cutegen_core.records.errors import UsageError

_MOST_READ = 4 << 20
"""Bytes: several times what a kernel file may have."""


def add(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = add_command(subcommands, "check", check, "run one kernel file through the stages")
    parser.add_argument("file", type=Path, help="kernel file (.cu)")
    given.add_problem(parser)
    parser.add_argument("--seed", type=given.seed, metavar="N", help="seed of the inputs (default: a fresh one)")


def check(arguments: argparse.Namespace) -> int:
    request = CheckRequest(
        read_kernel(arguments.file), arguments.problem, os.getcwd(), arguments.executor or "", arguments.arch or "",
        arguments.seed, arguments.json,
    )  # fmt: skip
    answer = asking.ask(request, lambda line: _say(line, arguments)) or _check_alone(request, arguments)
    print(answer.text)
    return 0 if answer.passed else 1


def read_kernel(path: Path) -> bytes:
    """Return the bytes of a kernel file, of an endless one the first; UsageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _say(line: str, arguments: argparse.Namespace) -> None:
    if not arguments.json:
        print(line, file=sys.stderr)


def _check_alone(request: CheckRequest, arguments: argparse.Namespace) -> asking.CheckAnswer:
    forking.shared().prepare([PROGRAM])
    # Imported while the fork server imports torch.
    from cutegen_core import checking
    from cutegen_core.evaluate.evaluator import Evaluator
    from cutegen_core.evaluate.timing.timer import Timer
    from cutegen_core.execute.compiler.compilation import Compiler
    from cutegen_core.execute.executors.choice import make_executor
    from cutegen_core.judge.reference import Reference
    from cutegen_core.machine.default_executor import default_executor
    from cutegen_core.machine.device import choose_device
    from cutegen_core.records.problem import Problem
    from cutegen_core.trajectory.store import Store

    with contextlib.ExitStack() as stack:

        def evaluator_of(problem: Problem) -> Evaluator:
            device = choose_device(arguments.arch)
            executor = make_executor(arguments.executor or default_executor(device))
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-check-"))
            store, compiler, reference = Store(), Compiler(device.arch, once=True), Reference(problem, Path(scratch))
            compiler.begin()  # while torch is imported
            timer = stack.enter_context(Timer(reference, device)) if executor.measures_speed else None
            for close in (store.close, compiler.close, reference.close, executor.close):
                stack.callback(close)
            return Evaluator(problem, reference, executor, compiler, device, store.put, timer)

        trial = checking.check(request, evaluator_of, checking.Narrator(arguments.json))
        return asking.CheckAnswer(checking.to_print(trial, request), trial.passed)
