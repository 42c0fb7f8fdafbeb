"""Check the testing role's suite, and record whether it is trusted."""

from __future__ import annotations

from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.propose.port import TriesSuite
from cutegen_core.records.event import SuiteTried
from cutegen_core.session.writer import Writer
from cutegen_core.trajectory.state import Step


def try_suite(writer: Writer, wanted: TriesSuite, step: Step, watch: Watch) -> SuiteTried:
    """Return what became of a suite."""
    if wanted.problem is None:
        return SuiteTried(step.number, "", "", False, wanted.reason)
    key = writer.store.put_record(wanted.problem)
    return SuiteTried(step.number, key, "", True, "accepted as it is")
