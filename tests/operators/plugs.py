"""Kernels of the playbook as sources of operators, with the compile server and torch worker that all tests share."""

from __future__ import annotations

from cutegen_core.machine.device import choose_device
from cutegen_core.operators.source import Source, compiled
from cutegen_core.problems.library import load
from cutegen_core.propose.playbook import propose
from cutegen_core.records.problem import Problem
from tests.shared_tools import SharedTools

DEVICE = choose_device("sm_90a")


def text_of(problem: Problem, level: str, shared: SharedTools) -> str:
    """The playbook's kernel file of that name."""
    reference = shared.reference(problem)
    workload = problem.workloads[0]
    found = propose(reference.graph(workload), reference.signature(workload), problem.name, problem.allow)
    return next(variant.source for variant in found if variant.name == level)


def source_of(name: str, level: str, shared: SharedTools, *changes: tuple[str, str]) -> Source:
    """That kernel, compiled; `changes` are edits of its text."""
    problem = load(name)
    text = text_of(problem, level, shared)
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return compiled(
        problem, text, "sm_90a", compiler=shared.compiler("sm_90a"), reference=shared.reference(problem)
    )  # fmt: skip
