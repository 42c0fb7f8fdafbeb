"""Choose the piece of a step's evidence that a slide has room for: the cause of a failure, else profile or cost."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from cutegen_core.records.evidence import Evidence, Remark, Section, Tone, Topic
from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Trial
from cutegen_core.records.wording import lowered
from cutegen_core.share.slides import charts
from cutegen_core.share.slides.code import one_line
from cutegen_core.share.slides.svg import Picture

_TOLD_METRICS = ("DRAM throughput", "SM throughput", "achieved occupancy")


class KeyEvidence(NamedTuple):
    """What a slide shows of the evidence.

    Attributes:
        kind: "failed" or "passed".
        code: the line of the kernel that it is about.
    """

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    code: Markup | None = None
    picture: Picture | None = None


def key_evidence(
    found: Evidence | None, trial: Trial | None, profile: Profile | None, source: str
) -> KeyEvidence | None:
    """Return what one would show of a trial that can show one thing only; None before there is a trial.

    Args:
        profile: of this kernel, asked for or taken in the trial.
    """
    if found is None or trial is None:
        return None
    if not trial.passed:
        return _of_failure(found, trial, source)
    if profile is not None and profile.kernels:
        return _of_profile(found, profile, source)
    return _of_cost(found, trial)


def _of_failure(found: Evidence, trial: Trial, source: str) -> KeyEvidence:
    """Show the most telling section: its first remark as the title, then what adds to it, then the run."""
    section = next((s for s in found.cause if s.topic is not Topic.RUN), None)
    run = tuple(s.remarks[0].text for s in found.cause if s.topic is Topic.RUN)
    if section is None:
        return KeyEvidence("failed", found.message or lowered(found.status), run)
    first = next((r for r in section.remarks if r.tone is Tone.BAD and section.topic is Topic.DIAGNOSTICS),
                 section.remarks[0])  # fmt: skip
    picture = _where_wrong(trial) if section.topic is Topic.OUTPUT else None
    lines = (*_more(section, first), *run)
    return KeyEvidence("failed", first.text, lines, one_line(source, first.at), picture)


def _more(section: Section, first: Remark) -> tuple[str, ...]:
    """Return the next sentence and the first row; where the title is a row, how many more rows there are."""
    if first.cells:
        others = len(section.rows) - 1
        return (f"and {others} more",) if others else ()
    sentences = [remark.text for remark in section.sentences if remark is not first]
    return (*sentences[:1], *(row.text for row in section.rows[:1]))


def _where_wrong(trial: Trial) -> Picture | None:
    failed = trial.correctness.first_failure if trial.correctness else None
    wrong = next((c for c in failed.comparisons if c.wrong), None) if failed else None
    return charts.wrong_where(wrong) if wrong else None


def _of_profile(found: Evidence, profile: Profile, source: str) -> KeyEvidence:
    """Show the launch that takes longest: a few metrics and its hottest line."""
    durations = [metric.value if (metric := k.metric("duration")) else 0.0 for k in profile.kernels]
    section = found.sections(Topic.PROFILE)[durations.index(max(durations))]
    told = [s.text for name in _TOLD_METRICS for s in section.sentences if s.text.startswith(f"{name} ")]
    title = f"Profile: {', '.join(told)}"
    if not section.rows:
        return KeyEvidence("passed", title, (profile.tool,))
    hottest = section.rows[0]
    return KeyEvidence("passed", title, (hottest.text,), one_line(source, hottest.at))


def _of_cost(found: Evidence, trial: Trial) -> KeyEvidence | None:
    """Show the kernel with the most registers, and the launch with the most waves."""
    resources = trial.resources
    if resources is None or not resources.kernels:
        return None
    registers = [kernel.registers for kernel in resources.kernels]
    kernel = found.sections(Topic.RESOURCES)[0].rows[registers.index(max(registers))]
    if not resources.occupancy:
        return KeyEvidence("passed", kernel.text, (resources.arch,))
    waves = [row.waves for row in dict.fromkeys(resources.occupancy)]
    launch = found.sections(Topic.OCCUPANCY)[0].rows[waves.index(max(waves))]
    return KeyEvidence("passed", kernel.text, (launch.text,))
