"""Check the testing role's suite, and record whether it is trusted: from then on it judges the session's kernels."""

from __future__ import annotations

from cutegen_core.evaluate.mutation.study import MutantRow
from cutegen_core.evaluate.mutation.trust import CANNOT_RUN, TOO_LARGE, KeptRows, SuiteJudges, check_suite
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.problems.suite import LIMITS, added_workloads
from cutegen_core.propose.port import TriesSuite
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import ProblemError, WorkerLimitError
from cutegen_core.records.event import SuiteTried
from cutegen_core.records.problem import Problem
from cutegen_core.session.writer import Writer
from cutegen_core.trajectory.state import Step


def try_suite(writer: Writer, wanted: TriesSuite, step: Step, watch: Watch) -> SuiteTried:
    """Return what became of a suite; one that asks for too much, or that the reference does not bear, is no fault of
    the machine.

    Raises:
        StoppedError: a person stopped it; a later check goes on from there.
    """
    if wanted.problem is None:
        return SuiteTried(step.number, "", "", False, wanted.reason)
    key = writer.store.put_record(wanted.problem)
    existing = wanted.problem.existing
    try:
        with writer.tools.suite_judges(writer.state, key) as judges:
            refusal = _too_large(judges, wanted.problem, writer)
            if refusal:
                return SuiteTried(step.number, key, "", False, refusal)
            kept = _kept_rows(writer, key)
            found = check_suite(judges, existing, int(key[:7], 16), watch, kept)
    except (ProblemError, WorkerLimitError) as error:
        return SuiteTried(step.number, key, "", False, f"{CANNOT_RUN}: {error}")
    return SuiteTried(step.number, key, writer.store.put_record(found), found.trusted, found.message)


def _too_large(judges: SuiteJudges, problem: Problem, writer: Writer) -> str:
    """Return which workload has more bytes than a suite may ask for, "" if none has."""
    own = writer.store.record(Problem, writer.state.settings.problem)
    added, total = added_workloads(problem, own), 0
    for workload in problem.workloads:
        nbytes = judges.evaluator.signature(workload).nbytes if workload.name in added else 0
        total += nbytes
        if nbytes > LIMITS.workload_bytes:
            most = LIMITS.workload_bytes >> 20
            return (
                f"{TOO_LARGE}: workload {workload.name!r} has tensors of {nbytes:,} bytes, and {most} MiB are the most"
            )
    most = LIMITS.all_bytes >> 20
    return f"{TOO_LARGE}: {total:,} bytes of tensors, and {most} MiB are the most" if total > LIMITS.all_bytes else ""


def _kept_rows(writer: Writer, problem: str) -> KeptRows:
    """Keep the rows of a check beside the stored trials, under all that they rest on."""
    store, settings = writer.store, writer.state.settings

    def key(text: str) -> str:
        parts = ("mutant", content_key(text), problem, settings.executor, settings.arch, judge_digest())
        return content_key(" ".join(parts))

    def find(text: str) -> MutantRow | None:
        cached = store.cached_trial(key(text))
        return store.record(MutantRow, cached.trial) if cached else None

    return KeptRows(find, lambda text, row: store.cache_trial(key(text), store.put_record(row)))
