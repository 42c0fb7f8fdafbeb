"""On which workloads a kernel meets other values than the file's own."""

from cutegen_core.evaluate.stages.other_values import choose_values
from cutegen_core.records.problem import Problem, Values, Workload, WorkloadRole
from tests.shared_tools import SharedTools

ROWS = """
import torch

rows = 4
dim = 61

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)

def get_inputs():
    return [torch.randn(rows, dim)]
"""


def chosen(shared: SharedTools, *sizes: tuple[int, int]) -> dict[Values, list[str]]:
    workloads = [Workload(f"{rows} x {dim}", WorkloadRole.EMULATOR, {"rows": rows, "dim": dim}) for rows, dim in sizes]
    reference = shared.reference(Problem("rows", "rows", ROWS, "rows.py", tuple(workloads)))
    found: dict[Values, list[str]] = {}
    for workload, base, _ in choose_values(reference):
        found.setdefault(workload.values, []).append(base.name)
    return found


def test_what_breaks_sums_and_exponentials_is_tried_at_sizes_with_other_tails(shared: SharedTools) -> None:
    """A kernel may have code of its own for whole vectors."""
    found = chosen(shared, (4, 61), (4, 64))
    for values in (Values.NEGATIVE_MEAN, Values.ALL_NEGATIVE, Values.HUGE, Values.INFINITE, Values.DOMINANT):
        assert found[values] == ["4 x 64", "4 x 61"], values
    assert found[Values.TINY] == ["4 x 64"]


def test_where_all_workloads_are_large_the_smallest_has_them(shared: SharedTools) -> None:
    """As with a table of thousands of rows, which no small workload shrinks."""
    found = chosen(shared, (4000, 400), (4000, 200))
    assert set(found[Values.TINY]) == {"4000 x 200"}
    assert Values.NAN in found
