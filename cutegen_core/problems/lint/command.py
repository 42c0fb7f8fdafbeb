"""Run `cutegen problems --lint`: check problems one after the other in one sandboxed worker."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.judge.reference import start_worker
from cutegen_core.machine.device import choose_device
from cutegen_core.machine.worker import Worker
from cutegen_core.problems import library
from cutegen_core.problems.lint import linting
from cutegen_core.problems.lint.rules import NO_FINDINGS, LintFinding, Severity
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem

SHAPES = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.NOTE: "→"}


class LintResult(NamedTuple):
    """Findings of one problem, or why there are none: it cannot be loaded, or its reference fails."""

    name: str
    findings: tuple[LintFinding, ...]
    error: str

    @property
    def is_sound(self) -> bool:
        return not self.error and not any(f.severity is Severity.ERROR for f in self.findings)


def lint(arguments: argparse.Namespace) -> int:
    """Check the named problem or path, or all problems; return 1 if a verdict on one of them would be meaningless."""
    wanted = arguments.lint or arguments.path
    listing = library.find(wanted) if wanted else library.list_known()
    linted = []
    with tempfile.TemporaryDirectory(prefix="cutegen-lint-") as scratch:
        worker = start_worker(Path(scratch), linting.LIMITS)
        for position, entry in enumerate(listing.entries, 1):
            print(f"{position} of {listing.total}: {entry.name}", file=sys.stderr)
            linted.append(
                _lint_one(entry.problem, worker, arguments.run_existing)
                if entry.problem
                else LintResult(entry.name, (), entry.error)
            )
            if not arguments.json:
                _print(linted[-1])
        worker.close()
    if arguments.json:
        print(json.dumps({"problems": [_to_plain(one) for one in linted]}))
    return 0 if all(one.is_sound for one in linted) else 1


def _lint_one(problem: Problem, worker: Worker, run_existing: bool) -> LintResult:
    try:
        found = linting.lint(problem, choose_device(None), worker=worker, run_existing=run_existing)
        return LintResult(problem.name, found, "")
    except ProblemError as error:
        return LintResult(problem.name, (), str(error))


def _print(linted: LintResult) -> None:
    if linted.error:
        print(f"{linted.name}: {linted.error}")
    elif not linted.findings:
        print(f"{linted.name}: {NO_FINDINGS}")
    for finding in linted.findings:
        print(f"{linted.name}: {SHAPES[finding.severity]} {finding.severity} {finding.rule}: {finding.what}")
        print(f"    why: {finding.why}\n    do:  {finding.do}")


def _to_plain(linted: LintResult) -> Mapping[str, Any]:
    failed = {"error": linted.error} if linted.error else {}
    return {"name": linted.name, "findings": [finding.to_plain() for finding in linted.findings], **failed}
