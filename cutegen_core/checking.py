"""Check one kernel file: a trial of its own, outside of any session, and what is printed of it.

The command `check` does this in its own process, or asks the engine to (`engine.checks`), whose workers are warm.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING

from cutegen_core.evaluate.evidence import plain_text
from cutegen_core.evaluate.evidence.verdict import evidence
from cutegen_core.evaluate.stages.watch import SilentWatch, Watch
from cutegen_core.kernel.kernel_file import decode
from cutegen_core.problems import library
from cutegen_core.records import as_json
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.check import CheckRequest
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.evidence import Topic
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Diagnostic, ExecutorKind, Stage, StageResult, StageStatus, Status, Trial

if TYPE_CHECKING:  # it imports the compiler and the executors; who prints needs none
    from cutegen_core.evaluate.evaluator import Evaluator

_ROWS, _NOTES = 10, 1
_UNPRINTED = (Topic.RUNS, Topic.OCCUPANCY, Topic.CONDITIONS)
"""Details that `--json` and the pages show."""


class Narrator(SilentWatch):
    """Prints the stages of a trial on stderr as they happen."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def ended(self, result: StageResult) -> None:
        line = stage_line(result)
        if line and not self._quiet:
            print(line, file=sys.stderr)


class SweepNarrator(Narrator):
    """Prints what a sweep does on stderr."""

    def say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr)


def check(request: CheckRequest, evaluator_of: Callable[[Problem], Evaluator], watch: Watch) -> Trial:
    """Take the kernel through the stages.

    Raises:
        CutegenError: there is no such problem, or the machine failed; there is no verdict.
    """
    problem = library.load(request.problem, Path(request.folder))
    seed = randbits(31) if request.seed is None else request.seed
    evaluator = evaluator_of(problem)
    try:
        candidate = Candidate(decode(request.kernel), Author.IMPORT)
        return evaluator.evaluate(candidate, seed=seed, watch=watch, thorough=True)
    except KernelFileError as error:
        return _unreadable(request.kernel, error)


def executor_of(request: CheckRequest) -> ExecutorKind | None:
    return ExecutorKind(request.executor) if request.executor else None


def stage_line(result: StageResult) -> str:
    """Return the line about a stage that has ended; "" for one of which nothing is said."""
    if result.stage is Stage.PROFILE:
        return ""
    return f"{result.stage.lower():10} {result.status:8} {result.seconds:6.2f} s  {result.note}"


def trial_text(trial: Trial) -> str:
    """Return the verdict and what it rests on, for a reader."""
    found = evidence(trial)
    sections = (section.clipped(_ROWS, _NOTES) for section in found.sections() if section.topic not in _UNPRINTED)
    return "\n".join([found.headline, textwrap.indent(plain_text.text(sections), "  ")])


def to_print(trial: Trial, request: CheckRequest) -> str:
    return json_text(as_json.to_plain(trial)) if request.as_json else trial_text(trial)


def json_text(value: object) -> str:
    """Return strict JSON: NaN and infinities, which wrong kernels produce, become strings."""
    return json.dumps(_strict(value), allow_nan=False)


def _strict(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list | tuple) else value


def _unreadable(data: bytes, error: KernelFileError) -> Trial:
    """Return the verdict on a file that cannot be read as a kernel file."""
    patch = StageResult(Stage.PATCH, StageStatus.FAILED, 0.0, Status.REJECTED)
    diagnostic = Diagnostic(error.line, "error", error.what, "plan")
    return Trial(content_key(data), Status.REJECTED, (patch,), ExecutorKind.CPU, str(error), (diagnostic,))
