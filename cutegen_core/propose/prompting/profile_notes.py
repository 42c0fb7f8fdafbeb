"""Write measured times and a profile for a prompt, in the words of `evaluate.evidence`, cut to their core.

Deterministic: the same records give the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen_core.evaluate.evidence import plain_text, profile, speed
from cutegen_core.propose.port import ProposalRequest
from cutegen_core.propose.prompting import feedback
from cutegen_core.records.evidence import Section, Tone, Topic
from cutegen_core.records.performance import Profile
from cutegen_core.records.trial import Trial

MAX_LINES = 5


def timing_text(trial: Trial) -> str:
    """Write one line a workload: "large: 1.23 ms, A/A noise ±1 %, ...; 1.42x faster than eager"; "" without times."""
    told: dict[str, list[str]] = {}
    for section in speed.speed(trial):
        if section.subject and section.topic in (Topic.SPEED, Topic.SPEEDUPS):
            told.setdefault(section.subject, []).extend(remark.text for remark in section.remarks)
    return "\n".join(f"{workload}: {'; '.join(words)}" for workload, words in told.items())


def text(found: Profile, source: str = "") -> str:
    """Write the metrics of each launch in one line, the lines that warps wait at, and the profiler's advice.

    Args:
        source: of the kernel file, to quote those lines; without it they are only numbered.
    """
    code = source.splitlines()
    return "\n".join(line for section in profile.profile(found) for line in _launch(section, code))


def whole(request: ProposalRequest) -> str:
    """Write the compiler's resources, and the profile if there is one."""
    trial = request.base_trial
    spent = feedback.resources_text(trial.resources) if trial and trial.resources else ""
    source = request.base.source if request.base else ""
    seen = text(request.profile, source) if request.profile else request.profile_note
    return "\n".join(part for part in (seen, spent) if part)


def _launch(section: Section, code: list[str]) -> Iterator[str]:
    yield f"{section.title}: {', '.join(r.text for r in section.sentences if r.tone is Tone.PLAIN)}"
    for row in section.rows[:MAX_LINES]:
        yield from plain_text.written(row, code)
    yield from (remark.text for remark in section.sentences if remark.tone is Tone.ASIDE)
