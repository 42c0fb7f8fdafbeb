"""Derived workloads keep what divides a size in one test and break it in another, also where a file ties its sizes."""

import pytest

from cutegen_core.judge import problem_source
from cutegen_core.problems.library import Loader
from cutegen_core.records.problem import WorkloadRole
from tests.problems.kernelbench_files import GOOD

TIED = """import torch
class Model(torch.nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        assert channels % heads == 0 and channels // heads % 4 == 0
    def forward(self, x):
        return torch.softmax(x.unflatten(-1, (self.heads, -1)), -1)
batch, channels, heads = 4096, 768, 12
def get_inputs():
    return [torch.rand(batch, channels)]
def get_init_inputs():
    return [channels, heads]
"""


@pytest.fixture(scope="module")
def loader():
    with Loader() as made:
        yield made


@pytest.mark.parametrize("name", ["elementwise", "matmul", "asserted_relation", "attention_heads", "tied"])
def test_divisibility_is_kept_in_one_test_and_broken_in_another(name, loader, tmp_path):
    path = tmp_path / "file.py"
    path.write_text(TIED if name == "tied" else GOOD[name])
    problem = loader.load(path)
    slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
    large = [n for n, slot in slots.items() if isinstance(slot.value, int) and slot.value > 8 and not slot.derived]
    small = problem.with_role(WorkloadRole.EMULATOR)
    sizes = [{n: w.sizes.get(n, slots[n].value) for n in large} for w in small]
    assert any(all(value % 4 == 0 for value in one.values()) for one in sizes), sizes
    assert any(any(value % 4 for value in one.values()) for one in sizes), sizes
