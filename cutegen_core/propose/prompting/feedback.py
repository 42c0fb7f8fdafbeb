"""Evidence of a failed trial, as text for a diagnosis: what happened, where, and what it looks like.

One builder per failing stage. Each quotes the user's own lines, so the model sees what the person sees.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.records.trial import Comparison, Diagnostic, Finding, Resources, Stage, Status, Trial, WorkloadVerdict

MAX_DIAGNOSTICS, MAX_MISMATCHES, MAX_NOTES = 5, 8, 6


def evidence(trial: Trial, source: str) -> str:
    """The evidence of a failed trial; "" for one that passed."""
    if trial.passed:
        return ""
    stage = trial.failed_stage
    lines = [f"Verdict: {trial.status} at stage {stage or 'GENERATE'}.", trial.message]
    if stage in (Stage.PATCH, Stage.COMPILE):
        lines += _compile_evidence(trial, source)
    if trial.status is Status.LAUNCH_ERROR or trial.status is Status.COMPILE_LIMIT:
        lines += _limits(trial.resources)
    if stage is Stage.TEST and trial.correctness:
        failure = trial.correctness.first_failure
        if failure:
            lines += _test_evidence(failure, trial, source)
    return "\n".join(line for line in lines if line)


def resources_text(resources: Resources) -> str:
    """What the compiler spent, one kernel a line, with units: the profile there is without a GPU."""
    lines = []
    for kernel in resources.kernels:
        mix = sorted(kernel.instruction_mix.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} {count}" for name, count in mix[:12])
        spills = kernel.spill_store_bytes + kernel.spill_load_bytes
        lines.append(
            f"- {kernel.kernel}: {kernel.registers} registers a thread, {spills} B spilled, "
            f"{kernel.smem_static_bytes} B static shared memory; SASS instructions: {shown}"
        )
    lines += [
        f"- {row.workload}, {row.kernel}: {row.blocks_per_sm} blocks per SM, occupancy {row.occupancy:.0%} "
        f"(limited by {row.limiter}), {row.waves:.2f} waves"
        for row in resources.occupancy
    ]
    return "\n".join(lines)


def _compile_evidence(trial: Trial, source: str) -> Iterator[str]:
    errors = [d for d in trial.diagnostics if d.severity == "error"] or list(trial.diagnostics)
    for diagnostic in errors[:MAX_DIAGNOSTICS]:
        yield from _quoted(diagnostic, source)
    if len(errors) > MAX_DIAGNOSTICS:
        yield f"... and {len(errors) - MAX_DIAGNOSTICS} more errors, most of them likely to follow from these."


def _quoted(diagnostic: Diagnostic, source: str) -> Iterator[str]:
    yield f"line {diagnostic.line}: {diagnostic.message}" if diagnostic.line else diagnostic.message
    yield _line(source, diagnostic.line)
    yield from (f"    {note}" for note in diagnostic.notes[:MAX_NOTES])


def _limits(resources: Resources | None) -> Iterator[str]:
    if resources:
        yield "The compiled kernels:"
        for kernel in resources.kernels:
            smem = kernel.smem_static_bytes
            yield f"- {kernel.signature}: {kernel.registers} registers, {smem} B static shared memory"


def _test_evidence(failure: WorkloadVerdict, trial: Trial, source: str) -> Iterator[str]:
    how = "instrumented" if failure.mode == "checked" else f"plain, {failure.order} thread order"
    yield f"Workload {failure.workload} ({how} run, seed {failure.seed})."
    for finding in failure.findings[:MAX_DIAGNOSTICS]:
        yield from _finding(finding, source)
    for comparison in failure.comparisons:
        if comparison.wrong:
            yield from _comparison(comparison)
    passed = [v.workload for v in trial.correctness.verdicts if v.status is Status.PASSED] if trial.correctness else []
    if passed:
        yield f"These workloads passed before it: {', '.join(dict.fromkeys(passed))}."


def _finding(finding: Finding, source: str) -> Iterator[str]:
    where = f"block {finding.block}, thread {finding.thread}" if finding.block else ""
    yield f"{finding.kind} {finding.variable} {where}: {finding.message}"
    yield _line(source, finding.line)


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield (
        f"Output {comparison.output} {list(comparison.shape)}: {comparison.wrong} of {comparison.total} wrong, "
        f"largest error {comparison.max_abs_error:.3g} "
        f"(the reference itself is off by {comparison.reference_error:.3g})."
    )
    counts = {"NaN": comparison.nan, "Inf": comparison.inf, "never written": comparison.poison}
    yield ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
    if comparison.pattern:
        yield f"Pattern: {comparison.pattern}."
    for wrong in comparison.first[:MAX_MISMATCHES]:
        yield f"- at {list(wrong.index)}: got {wrong.got:.7g}, want {wrong.want:.7g}"


def _line(source: str, number: int) -> str:
    lines = source.splitlines()
    return f"    {number} | {lines[number - 1]}" if 0 < number <= len(lines) else ""
