"""Check the testing role's suite, and record whether it is trusted: from then on it judges the session's kernels."""

from __future__ import annotations

from cutegen_core.evaluate.mutation.study import MutantRow
from cutegen_core.evaluate.mutation.trust import KeptRows, SuiteCheck, SuiteJudges, check_suite
from cutegen_core.evaluate.stages.watch import Watch
from cutegen_core.evaluate.verdict_key import judge_digest
from cutegen_core.problems.suite import LIMITS, added_workloads
from cutegen_core.propose.port import TriesSuite
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import ProblemError, WorkerLimitError
from cutegen_core.records.event import SuiteFault, SuiteTried
from cutegen_core.records.problem import Problem
from cutegen_core.session.writer import Writer
from cutegen_core.trajectory.state import Step

_GIVEN_UP = "No further suite is asked for: the problem's own workloads judge from here on"


def try_suite(writer: Writer, wanted: TriesSuite, step: Step, watch: Watch) -> SuiteTried:
    """Return what became of a suite.

    Raises:
        StoppedError: a person stopped it; a later check goes on from there.
    """
    key = writer.store.put_record(wanted.problem) if wanted.problem else ""
    found = _check(writer, wanted.problem, key, watch) if wanted.problem else wanted.reason
    trusted = isinstance(found, SuiteCheck) and found.trusted
    message = found.message if isinstance(found, SuiteCheck) else found
    result = writer.store.put_record(found) if isinstance(found, SuiteCheck) else ""
    if wanted.last and not trusted:
        message = f"{message.rstrip('.')}. {_GIVEN_UP}"
    return SuiteTried(step.number, key, result, trusted, message)


def _check(writer: Writer, problem: Problem, key: str, watch: Watch) -> SuiteCheck | str:
    """Return the check of a suite, or why none was made: it asks for too much, or the reference cannot run it."""
    try:
        with writer.tools.suite_judges(writer.state, key) as judges:
            refusal = _too_large(judges, problem, writer)
            return refusal or check_suite(judges, problem.existing, int(key[:7], 16), watch, _kept_rows(writer, key))
    except (ProblemError, WorkerLimitError) as error:
        return f"{SuiteFault.CANNOT_RUN}: {error}"


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
                f"{SuiteFault.TOO_LARGE}: workload {workload.name!r} has tensors of {nbytes:,} bytes, and {most} MiB "
                "are the most"
            )
    most = LIMITS.all_bytes >> 20
    if total <= LIMITS.all_bytes:
        return ""
    return f"{SuiteFault.TOO_LARGE}: {total:,} bytes of tensors, and {most} MiB are the most"


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
