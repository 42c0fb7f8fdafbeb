"""Check a problem (lint): is a verdict on it meaningful? `rules` explains every finding.

1. `check_static` examines workloads and tolerances and runs nothing.
2. `lint` also uses the sandboxed reference worker: it runs the reference at a small workload
   (`reference_process.lint_runs`), and reads signature and graph at the benchmark's sizes without allocating them
   (`sizes`, `baseline`).
3. A finding that other workloads would fix carries them; they were tried on the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cutegen_core.judge.reference import Reference, ReferenceLimits
from cutegen_core.judge.reference_answers import LintRun
from cutegen_core.machine.device import Device
from cutegen_core.machine.worker import Worker
from cutegen_core.problems.lint import baseline, existing, sizes
from cutegen_core.problems.lint.rules import CHEATS, LintFinding, Severity
from cutegen_core.problems.read import TESTED
from cutegen_core.records.problem import DEFAULT_TOLERANCE, Problem, Values, Workload, WorkloadRole

Progress = Callable[[str], None]

_LOOSE = 10.0
_LOOSE_MULTIPLE = 64.0
_LOOSEST = max(DEFAULT_TOLERANCE.values(), key=lambda tolerance: tolerance.atol)
"""An output's dtype is not known without a run, so one with a name is held against the loosest default."""
_SIGNED = (Values.LARGE_SCALE, Values.DENORMAL)
LIMITS = ReferenceLimits(seconds=60.0)


def check_static(problem: Problem) -> tuple[LintFinding, ...]:
    """Return the findings that need no run."""
    found = (*_check_tolerance(problem), *sizes.check_test_shapes(problem), *sizes.check_benchmark_exists(problem))
    return _sort(found)


def lint(
    problem: Problem,
    device: Device,
    progress: Progress = lambda line: None,
    worker: Worker | None = None,
    *,
    run_existing: bool = False,
) -> tuple[LintFinding, ...]:
    """Return all findings, the most severe first.

    Args:
        device: its memory and speed are compared with the benchmark.
        run_existing: take the existing kernel through all tests on the emulator.
        worker: a reference worker to share (`start_worker`); nothing is written to its folder.

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
            *_add_fixes(check_static(problem), reference),
            *_report_run(problem, reference, run),
            *_report_values(reference),
            *sizes.check_benchmarks(problem, reference, device),
            *baseline.check_baseline(problem, reference),
            *existing.check_alias(problem, reference.signature(reference.typical_workload())),
        ]
        if problem.existing:
            progress("looking at the existing kernel")
            found += existing.check_existing(problem, reference, device, run=run_existing)
    return _sort(found)


def _sort(found: Iterator[LintFinding] | tuple[LintFinding, ...] | list[LintFinding]) -> tuple[LintFinding, ...]:
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _check_tolerance(problem: Problem) -> Iterator[LintFinding]:
    stated = [(key, given) for key, given in problem.tolerance.items()]
    stated += [(f"workload {w.name}, {key}", given) for w in problem.workloads for key, given in w.tolerance.items()]
    for place, given in stated:
        usual = DEFAULT_TOLERANCE.get(place.rpartition(" ")[2], _LOOSEST)
        loose = [
            f"{name} {value:g} (default {default:g})"
            for name, value, default, limit in (
                ("atol", given.atol, usual.atol, _LOOSE * usual.atol),
                ("rtol", given.rtol, usual.rtol, _LOOSE * usual.rtol),
                ("x reference error", given.error_multiple, usual.error_multiple, _LOOSE_MULTIPLE),
            )
            if value > limit
        ]
        if loose:
            yield LintFinding("loose-tolerance", f"{place}: {', '.join(loose)}.")


def _add_fixes(found: tuple[LintFinding, ...], reference: Reference) -> Iterator[LintFinding]:
    """Yield the findings; add awkward sizes to those about missing ones if the reference accepts them."""
    for finding in found:
        awkward = sizes.find_awkward_test(reference) if finding.rule in ("one-shape", "only-tiles") else None
        yield LintFinding(finding.rule, finding.what, _add_workload(reference.problem, awkward))


def _report_run(problem: Problem, reference: Reference, run: LintRun) -> Iterator[LintFinding]:
    """Yield the worker's findings, except about values that another workload already draws."""
    tested = problem.with_role(*TESTED)
    where = f"workload {reference.typical_workload().name}: "
    caught = _find_caught(reference, tested) if any(rule in CHEATS for rule, _ in run.found) else frozenset()
    for rule, what in run.found:
        if rule in caught:
            continue
        if rule != "one-sign":
            yield LintFinding(rule, where + what)
        elif not any(w.values in _SIGNED for w in tested):
            yield LintFinding(rule, where + what, _add_values(reference, run, Values.LARGE_SCALE))
    floats = any("float" in t.dtype for t in reference.signature(reference.typical_workload()).inputs)
    if floats and all(w.values is Values.GIVEN for w in tested) and run.usable:
        yield LintFinding(
            "no-hard-values", "every test draws the values of get_inputs.", _add_values(reference, run, *run.usable)
        )


def _report_values(reference: Reference) -> Iterator[LintFinding]:
    """Yield a finding that lists the kinds of values on which kernels are not judged, with the reasons."""
    typical = reference.typical_workload()
    kinds = reference.find_derived(typical)
    judged = [kind.value for kind, doubt in kinds.items() if not doubt]
    by_reason = dict[str, list[str]]()
    for kind, doubt in kinds.items():
        if doubt:
            by_reason.setdefault(doubt, []).append(kind.value)
    reasons = [f"{', '.join(names)} ({doubt})" for doubt, names in by_reason.items()]
    if reasons:
        what = (
            f"workload {typical.name}: kernels are also judged on {', '.join(judged) or 'no other'} values, but not on "
        )
        yield LintFinding("values-not-judged", f"{what}{'; '.join(reasons)}.")


def _find_caught(reference: Reference, tested: tuple[Workload, ...]) -> frozenset[str]:
    """Return the cheats that fail a test which draws other values."""
    hard = {w.values: w for w in tested if w.values is not Values.GIVEN}
    passing = [{rule for rule, _ in reference.lint(workload).found} for workload in hard.values()]
    return frozenset(cheat for cheat in CHEATS if any(cheat not in found for found in passing))


def _add_values(reference: Reference, run: LintRun, *wanted: Values) -> tuple[Workload, ...]:
    """Return the workloads plus a small one with the first of these values on which the reference is defined."""
    values = next((v for v in wanted if v in run.usable), None)
    if values is None:
        return ()
    sizes = reference.typical_workload().sizes
    return _add_workload(reference.problem, Workload(values.value, WorkloadRole.EMULATOR, sizes, values))


def _add_workload(problem: Problem, added: Workload | None) -> tuple[Workload, ...]:
    """Return all workloads with this one in front of the timed ones; empty if there is nothing to add."""
    if added is None or any(w.name == added.name for w in problem.workloads):
        return ()
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    return (*(w for w in problem.workloads if w not in timed), added, *timed)
