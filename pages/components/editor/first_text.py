"""Return the text that a person begins with who writes the first kernel of a problem."""

from __future__ import annotations

from cutegen_core.propose.prompting.rendering import EXAMPLE
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem, WorkloadRole
from cutegen_core.views.skeleton import write_skeleton
from pages.components.editor.shapes import shapes


def first_text(problem: Problem) -> str:
    """Return a skeleton with the problem's signature; the example while, or if, the reference does not tell it."""
    asked = shapes(problem)
    if not asked.done():
        return EXAMPLE.read_text()
    try:
        return skeleton(problem)
    except CutegenError:
        return EXAMPLE.read_text()


def skeleton(problem: Problem) -> str:
    """Return a kernel file without a body, with the shapes of the benchmark; it waits for the reference to tell them.

    Raises:
        CutegenError: the reference cannot tell them.
    """
    workload = next(iter(problem.with_role(WorkloadRole.BENCHMARK)), problem.workloads[0])
    return write_skeleton(problem.name, shapes(problem).result()[workload.name])
