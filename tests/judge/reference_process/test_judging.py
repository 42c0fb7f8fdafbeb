"""What the CPU's judge reads of a kernel's output: bools by their bytes, numbers of no dimension."""

import json

import numpy as np
import pytest

from cutegen_core.judge import reference_answers
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Comparison

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, s):
        return x > s

def get_inputs():
    return [torch.randn(33), torch.tensor(0.5)]
"""


@pytest.mark.parametrize(("true", "wrong"), [(1, False), (2, True), (255, True)])
def test_a_byte_that_is_neither_0_nor_1_is_no_bool(true, wrong, shared, tmp_path):
    workload = Workload("small", WorkloadRole.EMULATOR)
    reference = shared.reference(Problem("p", "p", SOURCE, "here", (workload,)), tmp_path)
    inputs = {spec.name: np.fromfile(path, np.float32) for spec, path in reference.write_inputs(workload, 3).items()}
    right = inputs["x"] > inputs["s"]
    (right.astype(np.uint8) * np.uint8(true)).tofile(tmp_path / "out")
    (output,) = reference.signature(workload).outputs
    (found,) = reference.compare(workload, 3, {output: tmp_path / "out"})
    assert isinstance(found, Comparison)
    assert found.wrong == (right.sum() if wrong else 0)


def test_values_are_derived_for_a_number_without_dimensions(shared, tmp_path):
    workload = Workload("small", WorkloadRole.EMULATOR)
    reference = shared.reference(Problem("p", "p", SOURCE, "here", (workload,)), tmp_path)
    assert len(reference.find_derived(workload)) > 10


@pytest.mark.parametrize(("order", "right"), [("first", True), ("last", True), ("smallest", False)])
def test_any_choice_among_equal_elements_is_right(order, right, shared, tmp_path):
    source = SOURCE.replace("x > s", "x.topk(1)[1]").replace("torch.randn(33)", "torch.randint(0, 2, (9, 33)).float()")
    workload = Workload("small", WorkloadRole.EMULATOR)
    reference = shared.reference(Problem("p", "p", source, "here", (workload,)), tmp_path)
    inputs = {spec.name: np.fromfile(path, np.float32) for spec, path in reference.write_inputs(workload, 3).items()}
    x = inputs["x"].reshape(9, 33)
    places = {"first": x.argmax(1), "last": 32 - x[:, ::-1].argmax(1), "smallest": x.argmin(1)}[order]
    places.astype(np.int64).tofile(tmp_path / "out")
    (output,) = reference.signature(workload).outputs
    (found,) = reference.compare(workload, 3, {output: tmp_path / "out"})
    assert found.wrong == (0 if right else 9)


def test_an_endless_number_in_an_answer_is_the_files_fault():
    answer = json.loads('{"shape": Infinity}')
    with pytest.raises(ProblemError, match="here: its process gave an answer that cannot be used"):
        reference_answers.read_answer(answer, "here", lambda message: int(message["shape"]))
