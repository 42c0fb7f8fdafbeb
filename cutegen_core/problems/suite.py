"""Read further test workloads for a problem from an answer: a WORKLOADS literal, parsed and never run.

1. The literal is found in the answer: the last one that a fence holds, else the text's own.
2. `read.read_workloads` checks it as it checks a problem file's; an error names the line of the answer.
3. Names must be new; timed workloads and tolerances stay the problem's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cutegen_core.judge.problem_source import SizeValue
from cutegen_core.problems import read
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, WorkloadRole

ORIGIN = "answer"
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?$(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"\bWORKLOADS\b\s*(?::[^=\n]*)?=\s*")


class SuiteLimits(NamedTuple):
    """Limits on what a suite may ask of a machine.

    Attributes:
        workload_bytes, all_bytes: of the tensors of one workload, and of all.
    """

    workloads: int
    workload_bytes: int
    all_bytes: int


LIMITS = SuiteLimits(24, 16 << 20, 64 << 20)
_LONGEST = 1 << 16


def with_suite(problem: Problem, answer: str) -> Problem:
    """Return the problem with the answer's workloads behind its own tests.

    Raises:
        ProblemError: the answer has no such literal, or one that is refused; the text names the line of the answer.
    """
    added = read.read_workloads(_literal(answer), problem, ORIGIN)
    own = {workload.name for workload in problem.workloads}
    for workload in added:
        if workload.role is WorkloadRole.BENCHMARK:
            raise ProblemError(f"{ORIGIN}: workload {workload.name!r}: the timed workloads stay the problem's own.")
        if workload.tolerance:
            raise ProblemError(f"{ORIGIN}: workload {workload.name!r}: the tolerance stays the problem's own.")
        if workload.name in own:
            raise ProblemError(f"{ORIGIN}: the problem has a workload {workload.name!r}: give yours another name.")
    if len(added) > LIMITS.workloads:
        raise ProblemError(f"{ORIGIN}: {len(added)} workloads, and at most {LIMITS.workloads} are tried.")
    timed = problem.with_role(WorkloadRole.BENCHMARK)
    tests = tuple(workload for workload in problem.workloads if workload not in timed)
    return replace(problem, workloads=(*tests, *added, *timed))


def added_workloads(problem: Problem, own: Problem) -> tuple[str, ...]:
    """Return the names of the workloads that a suite added to the problem."""
    names = {workload.name for workload in own.workloads}
    return tuple(workload.name for workload in problem.workloads if workload.name not in names)


def sizes_to_set(problem: Problem) -> Mapping[str, SizeValue]:
    """Return the sizes that a workload may set, with the file's own values."""
    return {name: slot.value for name, slot in read.sizes_of(problem).items()}


def _literal(answer: str) -> str:
    """Return the text of the dict as an assignment, on the lines that it has in the answer.

    Raises:
        ProblemError: there is none.
    """
    if len(answer) > _LONGEST:
        raise ProblemError(f"{ORIGIN}: longer than {_LONGEST >> 10} KiB, which no list of workloads is.")
    fenced = [found for found in _FENCE.finditer(answer) if "{" in found[2]]
    start, end = fenced[-1].span(2) if fenced else (0, len(answer))
    named = [found.end() for found in _NAMED.finditer(answer, start, end)]
    begin = answer.find("{", named[-1] if named else start, end)
    last = answer.rfind("}", start, end)
    if begin < 0 or last < begin:
        raise ProblemError(f"{ORIGIN}: it holds no WORKLOADS = {{...}}.")
    lines = answer.count("\n", 0, begin)
    return "\n" * lines + f"WORKLOADS = {answer[begin : last + 1]}\n"
