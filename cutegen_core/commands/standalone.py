"""Make what a trial needs in the command's own process, outside of any session.

Nothing is imported before it is needed, and torch, which takes longest, begins first.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cutegen_core.judge.reference_process import PROGRAM
from cutegen_core.machine import forking
from cutegen_core.records.errors import UsageError

if TYPE_CHECKING:
    from cutegen_core.evaluate.evaluator import Evaluator
    from cutegen_core.records.problem import Problem

_MOST_READ = 4 << 20
"""Bytes: several times what a kernel file may have."""


def read_kernel(path: Path) -> bytes:
    """Return the bytes of a kernel file, of an endless one the first; UsageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def begin() -> None:
    """Let the fork server import torch, while this process imports the rest."""
    forking.shared().prepare([PROGRAM])


def make_evaluator(
    problem: Problem, arguments: argparse.Namespace, stack: contextlib.ExitStack, *, once: bool
) -> Evaluator:
    """Return an evaluator for the executor and the target of the command line; `stack` closes it.

    Args:
        once: it compiles one kernel file only.
    """
    from cutegen_core.evaluate.evaluator import Evaluator
    from cutegen_core.evaluate.timing.measured import MeasuredPoints
    from cutegen_core.evaluate.timing.timer import Timer
    from cutegen_core.execute.compiler.compilation import Compiler
    from cutegen_core.execute.executors.choice import make_executor
    from cutegen_core.judge.reference import Reference
    from cutegen_core.machine.default_executor import default_executor
    from cutegen_core.machine.device import choose_device
    from cutegen_core.machine.workspace import cache_dir
    from cutegen_core.trajectory.store import Store

    device = choose_device(arguments.arch)
    executor = make_executor(arguments.executor or default_executor(device))
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cutegen-check-"))
    store, compiler, reference = Store(), Compiler(device.arch, once=once), Reference(problem, Path(scratch))
    compiler.begin()  # while torch is imported
    timer = stack.enter_context(Timer(reference, device)) if executor.measures_speed else None
    for close in (store.close, compiler.close, reference.close, executor.close):
        stack.callback(close)
    measured = MeasuredPoints(cache_dir("points"), device, problem) if timer else None
    return Evaluator(problem, reference, executor, compiler, device, store.put, timer, measured=measured)
