"""The playbook and PyTorch's own catalogue of operations, with the arguments by which PyTorch tests them.

What is not in the playbook is refused with a reason, whatever the operation and its arguments; nothing else is raised.
What it writes can be launched at the sizes, and the kernels of one in so many are run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.propose.playbook import NotInPlaybook, Variant, propose
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem
from tests.propose.playbook.right import DEVICE, assert_right
from tests.shared_tools import SharedTools
from tests.torch_catalogue import catalogue

ONE_IN = 40
"""Of how many calls that the playbook writes one is run."""


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_every_operation_is_written_or_refused(shared: SharedTools, tmp_path: Path) -> None:
    raised, written = [], 0
    for number, call in enumerate(catalogue()):
        scratch = tmp_path / str(number)
        scratch.mkdir()
        try:
            variants = kernels(call.problem, shared, scratch)
        except (NotInPlaybook, ProblemError):
            continue
        except Exception as error:  # noqa: BLE001 - what else is raised is what the test looks for
            raised.append(f"{call.text}: {type(error).__name__}: {error}")
            continue
        if written % ONE_IN == 0:
            assert_right(call.problem, variants[-1:], call.problem.workloads, shared, scratch)
        written += 1
    assert raised == []
    assert written > 1000


def kernels(problem: Problem, shared: SharedTools, scratch: Path) -> tuple[Variant, ...]:
    """Return the playbook's kernels, all of whose launches fit the sizes."""
    reference, own = shared.reference(problem, scratch), problem.workloads[0]
    signature = reference.signature(own)
    variants = propose(reference.graph(own), signature, problem.name)
    for variant in variants:
        kernel = kernel_file.parse(variant.source)
        kernel.plan(signature, DEVICE, kernel.defaults(), workload=own.name)
    return variants
