"""Check a problem (lint): is a verdict on it meaningful? `rules` explains every finding.

1. `check_static` examines workloads and tolerances and runs nothing.
2. `lint` also uses the sandboxed reference worker: it runs the reference at a small workload (`judge.lint_runs`), and
   reads signature and graph at the benchmark's sizes without allocating them (`sizes`, `baseline`).
3. A finding that other workloads would fix carries them; they were tried on the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cutegen_core.judge.reference import LintRun, Reference, ReferenceLimits
from cutegen_core.machine.device import Device
from cutegen_core.machine.worker import Worker
from cutegen_core.problems.lint import baseline, sizes
from cutegen_core.problems.lint.rules import CHEATS, Finding, Severity
from cutegen_core.problems.read import TESTED
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Problem, Values, Workload, WorkloadRole

Progress = Callable[[str], None]

_LOOSE = 10.0
_LOOSE_MULTIPLE = 64.0
_SIGNED = (Values.LARGE_SCALE, Values.DENORMAL)
LIMITS = ReferenceLimits(seconds=60.0)


def at_a_glance(problem: Problem) -> tuple[Finding, ...]:
    """Return the findings that need no run."""
    found = (*_tolerance(problem), *sizes.test_shapes(problem), *sizes.missing_benchmark(problem))
    return _sorted(found)


def lint(
    problem: Problem, device: Device, progress: Progress = lambda line: None, worker: Worker | None = None
) -> tuple[Finding, ...]:
    """Return all findings, the most severe first.

    Args:
        device: its memory and speed are compared with the benchmark.
        worker: a forking reference worker to share (`start_worker`); nothing is written to its folder.

    Raises:
        ProblemError: the reference fails, or has no workloads.
        MachineError: the worker failed.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-lint-") as scratch,
        Reference(problem, Path(scratch), LIMITS, worker) as reference,
    ):
        progress("running the reference at a small size")
        run = reference.lint(reference.typical_workload())
        progress("looking at its sizes and its graph")
        found = [
            *_mended(at_a_glance(problem), reference),
            *_ran(problem, reference, run),
            *sizes.benchmark(problem, reference, device),
            *baseline.findings(problem, reference),
        ]
    return _sorted(found)


def _sorted(found: Iterator[Finding] | tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _tolerance(problem: Problem) -> Iterator[Finding]:
    for dtype, given in problem.tolerance.items():
        usual = DEFAULT_TOLERANCE[dtype]
        loose = [
            f"{name} {value:g} (default {default:g})"
            for name, value, default, limit in (
                ("atol", given.atol, usual.atol, _LOOSE * usual.atol),
                ("rtol", given.rtol, usual.rtol, _LOOSE * usual.rtol),
                ("multiple of the reference's own error", given.error_multiple, usual.error_multiple, _LOOSE_MULTIPLE),
            )
            if value > limit
        ]
        if loose:
            yield Finding("loose-tolerance", f"{dtype}: {', '.join(loose)}.")


def _mended(found: tuple[Finding, ...], reference: Reference) -> Iterator[Finding]:
    """Yield the findings; add awkward sizes to those about missing ones if the reference accepts them."""
    for finding in found:
        awkward = sizes.awkward(reference) if finding.rule in ("one-shape", "only-tiles") else None
        yield Finding(finding.rule, finding.what, _with(reference.problem, awkward))


def _ran(problem: Problem, reference: Reference, run: LintRun) -> Iterator[Finding]:
    """Yield the worker's findings, except about values that another workload already draws."""
    tested = problem.with_role(*TESTED)
    where = f"workload {reference.typical_workload().name}: "
    caught = _caught(reference, tested) if any(rule in CHEATS for rule, _ in run.found) else frozenset()
    for rule, what in run.found:
        if rule in caught:
            continue
        if rule != "one-sign":
            yield Finding(rule, where + what)
        elif not any(w.values in _SIGNED for w in tested):
            yield Finding(rule, where + what, _drawn(reference, run, Values.LARGE_SCALE))
    floats = any("float" in t.dtype for t in reference.signature(reference.typical_workload()).inputs)
    if floats and all(w.values is Values.GIVEN for w in tested) and run.usable:
        yield Finding(
            "no-hard-values", "every test draws the values of get_inputs.", _drawn(reference, run, *run.usable)
        )


def _caught(reference: Reference, tested: tuple[Workload, ...]) -> frozenset[str]:
    """Return the cheats that fail a test which draws other values."""
    hard = {w.values: w for w in tested if w.values is not Values.GIVEN}
    passing = [{rule for rule, _ in reference.lint(workload).found} for workload in hard.values()]
    return frozenset(cheat for cheat in CHEATS if any(cheat not in found for found in passing))


def _drawn(reference: Reference, run: LintRun, *wanted: Values) -> tuple[Workload, ...]:
    """Return the workloads plus a small one with the first of these values on which the reference is defined."""
    values = next((v for v in wanted if v in run.usable), None)
    if values is None:
        return ()
    sizes = reference.typical_workload().sizes
    return _with(reference.problem, Workload(values.value, WorkloadRole.EMULATOR, sizes, values))


def _with(problem: Problem, added: Workload | None) -> tuple[Workload, ...]:
    """Return all workloads with this one in front of the timed ones; empty if there is nothing to add."""
    if added is None or any(w.name == added.name for w in problem.workloads):
        return ()
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    return (*(w for w in problem.workloads if w not in timed), added, *timed)
