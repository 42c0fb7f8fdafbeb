"""Say what is wrong with a role's answer before it is given, so that a person can mend it at once."""

from __future__ import annotations

from cutegen_core.problems import suite
from cutegen_core.propose.replies.parsing import UnparsedReply, parse_reply
from cutegen_core.propose.replies.reading import find_done, find_idea
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.event import Role
from cutegen_core.records.problem import Problem

NO_IDEA = "it names no idea: begin a line with `Idea: `"


def find_fault(role: Role, answer: str, problem: Problem, base: str) -> str:
    """Return why the answer could not be used, "" for one that can.

    Args:
        base: the kernel file that the coding role changes.
    """
    match role:
        case Role.TESTING:
            return _fault_of_suite(answer, problem)
        case Role.PLANNING:
            return "" if find_idea(answer) or find_done(answer) is not None else NO_IDEA
        case Role.CODING:
            parsed = parse_reply(answer, base or None)
            return parsed.reason if isinstance(parsed, UnparsedReply) else ""
    return ""


def _fault_of_suite(answer: str, problem: Problem) -> str:
    try:
        suite.with_suite(problem, answer)
    except ProblemError as error:
        return str(error)
    return ""
