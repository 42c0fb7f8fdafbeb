"""The one piece of evidence of a step that mattered: of a failed one the finding, of a passed one profile or cost."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Comparison, Diagnostic, Finding, Resources, Trial, WorkloadVerdict
from cutegen_core.records.wording import counted, lowered
from cutegen_core.share.slides import charts
from cutegen_core.share.slides.code import one_line
from cutegen_core.share.slides.svg import Picture

_TOLD_METRICS = ("DRAM throughput", "SM throughput", "achieved occupancy")


class Evidence(NamedTuple):
    """One finding.

    Attributes:
        kind: "failed" or "passed".
        code: the line of the kernel it is about.
    """

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    code: Markup | None = None
    picture: Picture | None = None


def evidence(trial: Trial | None, source: str, profile: Profile | None, before: Resources | None) -> Evidence | None:
    """What one would show of a trial if one could show one thing only; None before there is a trial.

    Args:
        profile: of this kernel, asked for or taken in the trial.
        before: what the kernel this one was made from costs.
    """
    if trial is None:
        return None
    if not trial.passed:
        return _of_failure(trial, source)
    if profile is not None and profile.kernels:
        return _of_profile(profile, source)
    return _of_cost(trial.resources, before) if trial.resources else None


# ---- why it failed


def _of_failure(trial: Trial, source: str) -> Evidence:
    failed = trial.correctness.first_failure if trial.correctness else None
    if failed and failed.findings:
        return _of_finding(failed, failed.findings[0], source)
    wrong = next((c for c in failed.comparisons if c.wrong), None) if failed else None
    if failed and wrong:
        return _of_wrong(failed, wrong)
    errors = [d for d in trial.diagnostics if d.severity == "error"] or list(trial.diagnostics)
    if errors:
        return _of_diagnostic(errors[0], len(errors), source)
    return Evidence("failed", trial.message or lowered(trial.status))


def _of_finding(run: WorkloadVerdict, finding: Finding, source: str) -> Evidence:
    where = [
        f"line {finding.line}" if finding.line else "",
        finding.variable and f"on {finding.variable}",
    ]
    who = [f"{name} {at}" for name, at in (("block", finding.block), ("thread", finding.thread)) if at]
    lines = (", ".join(filter(None, where)), ", ".join(who), _run(run))
    return Evidence("failed", f"{lowered(finding.kind)}: {finding.message}", tuple(filter(None, lines)),
                    one_line(source, finding.line))  # fmt: skip


def _of_wrong(run: WorkloadVerdict, wrong: Comparison) -> Evidence:
    first = wrong.first[0] if wrong.first else None
    where = f"first at {list(first.index)}: got {first.got:.6g}, want {first.want:.6g}" if first else ""
    count = f"{wrong.wrong:,} of {wrong.total:,} elements of {wrong.output} are wrong"
    title = f"{wrong.pattern}" if wrong.pattern else count
    lines = (count if wrong.pattern else "", where, _run(run))
    return Evidence("failed", title, tuple(filter(None, lines)), None, charts.wrong_where(wrong))


def _of_diagnostic(found: Diagnostic, count: int, source: str) -> Evidence:
    place = f"line {found.line}, said by {found.tool}" if found.line else f"said by {found.tool}"
    more = f"and {counted(count - 1, 'more message')}" if count > 1 else ""
    return Evidence("failed", found.message, tuple(filter(None, (place, more))), one_line(source, found.line))


def _run(run: WorkloadVerdict) -> str:
    order = f", thread order {run.order}" if run.order else ""
    return f"workload {run.workload}, {run.mode}, seed {run.seed}{order}"


# ---- what it costs


def _of_profile(profile: Profile, source: str) -> Evidence:
    kernel = max(profile.kernels, key=lambda k: m.value if (m := k.metric("duration")) else 0.0)
    told = [f"{name} {m.value:.0f} {m.unit}" for name in _TOLD_METRICS if (m := kernel.metric(name))]
    total = sum(line.samples for line in kernel.lines)
    hottest = max(kernel.lines, key=lambda line: line.samples, default=None)
    if hottest is None or not total:
        return Evidence("passed", f"Profile: {', '.join(told)}", (profile.tool,))
    waits = f", waiting for {hottest.stall}" if hottest.stall else ""
    hot = f"line {hottest.line} holds {100 * hottest.samples / total:.0f} % of the samples{waits}"
    return Evidence("passed", f"Profile: {', '.join(told)}", (hot,), one_line(source, hottest.line))


def _of_cost(resources: Resources, before: Resources | None) -> Evidence:
    registers = max((k.registers for k in resources.kernels), default=0)
    was = max((k.registers for k in before.kernels), default=0) if before else 0
    words = f"{registers} registers a thread{f' (was {was})' if was and was != registers else ''}"
    spills = f"{resources.spill_bytes} B spilled" if resources.spill_bytes else "nothing spilled"
    rows = [row for row in resources.occupancy if row.waves] or list(resources.occupancy)
    largest = max(rows, key=lambda row: row.waves, default=None)
    if largest is None:
        return Evidence("passed", f"{words}, {spills}", (resources.arch,))
    launch = f"{counted(largest.smem_bytes, 'byte')} of shared memory a block, {largest.waves:.2g} waves"
    occupancy = f"occupancy {100 * largest.occupancy:.0f} %, limited by {largest.limiter}"
    return Evidence("passed", f"{words}, {spills}", (occupancy, f"{launch} ({largest.workload})"))
