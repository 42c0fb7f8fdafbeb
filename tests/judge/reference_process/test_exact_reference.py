"""References that convert to a precision themselves are still compared with float64 values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from tests.shared_tools import SharedTools

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, A, B):
        total = torch.zeros(A.shape[0], B.shape[0], dtype=torch.float32)
        return total + A.float() @ B.to(torch.float32).T

K = 192

def get_inputs():
    return [torch.randn(48, K).half(), torch.randn(32, K).half()]
"""


def test_a_reference_that_converts_has_an_error_of_its_own(shared: SharedTools, tmp_path: Path):
    """Otherwise a product summed in another order, as tensor cores do, would be held against four units in the last
    place."""
    problem = Problem("product", "product", SOURCE, "here", (Workload("small", WorkloadRole.EMULATOR),))
    workload = problem.workloads[0]
    reference = shared.reference(problem, tmp_path)
    files = reference.write_inputs(workload, 7)
    a, b = (np.frombuffer(path.read_bytes(), np.float16).reshape(spec.shape) for spec, path in files.items())
    backwards = (a[:, ::-1].astype(np.float32) @ b[:, ::-1].astype(np.float32).T).astype(np.float32)
    output = tmp_path / "out"
    output.write_bytes(backwards.tobytes())
    (found,) = reference.compare(workload, 7, {reference.signature(workload).outputs[0]: output})
    assert found.wrong == 0
    assert found.reference_error > 0
    assert found.error_ratio < 0.2
