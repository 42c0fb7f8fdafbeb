"""List how a kernel was proven, its acceptance test included."""

from __future__ import annotations

from cutegen_core.evaluate.evidence import proof, speed
from cutegen_core.records.trial import Trial


def lines(trial: Trial | None, acceptance: Trial | None) -> tuple[str, ...]:
    """Write one sentence for each kind of run: of the acceptance test where the kernel passed it, else of its trial.

    Args:
        acceptance: the session's last acceptance test, which may be of another kernel.
    """
    failed = _failed_acceptance(trial, acceptance)
    own = acceptance and trial and acceptance.candidate == trial.candidate
    proven = acceptance if acceptance and own and acceptance.passed else trial
    if proven is None or proven.correctness is None or not proven.passed:
        return failed
    accepted = ("Accepted: all tests again, with fresh inputs",) if proven is acceptance else ()
    sections = (*proof.proof(proven), *speed.fresh_process(proven), *(proof.marks(trial) if trial else ()))
    return (*accepted, *failed, *(remark.text for section in sections for remark in section.remarks))


def _failed_acceptance(trial: Trial | None, acceptance: Trial | None) -> tuple[str, ...]:
    if acceptance is None or trial is None:
        return (f"The acceptance test failed: {acceptance.message}",) if acceptance and not acceptance.passed else ()
    own = acceptance.candidate == trial.candidate
    if acceptance.passed:
        return (f"It failed an acceptance test before: {trial.message}",) if own and not trial.passed else ()
    return (f"{'This' if own else 'Another'} kernel failed its acceptance test: {acceptance.message}",)
