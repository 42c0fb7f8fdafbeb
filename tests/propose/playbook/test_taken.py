"""Elements at places that other tensors hold: right for every form PyTorch has of it, and with what follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.propose.playbook.right import assert_right, problem, variants_of
from tests.shared_tools import SharedTools

SIZES, AWKWARD = {"N": 40, "C": 24, "T": 12}, {"N": 7, "C": 5, "T": 3}
FORMS = {
    "embedding": "F.embedding(i, x) * 2 + 1, F.embedding(i[None], x)",
    "select": "torch.relu(torch.index_select(x, 1, j.int()))",
    "gather": "torch.gather(x, 0, g) - 1, torch.gather(x.t(), 1, g.t())",
    "take": "x.take(i * C), x.take(-i - 1)",
    "take along": "torch.take_along_dim(x, j[:1, None], 1), torch.take_along_dim(x[:, 1:], g, 0) + 1",
    "from the end": "x[i - N], y[:, j - C] * 2",
    "several": "x[i, j], z[:, i, j], z[i[:, None] % 2, :, j]",
    "of other dtypes": "x.half()[i] * 0.5, (x > 0)[i]",
    "then rows": "F.layer_norm(F.embedding(i, x) + y[:, :1], (C,))",
    "then a product": "torch.relu(x[i] @ x.t())",
    "a part": "x[i][1:, ::2].contiguous(), x[i].flip(0)",
    "of what is computed": "torch.softmax(x, 1)[i], (x * 3)[:, j].sum(1)",
    "places that are computed": "x[(i * 2 + 1) % N], x[torch.arange(T) // 2]",
}
INPUTS = {
    "x": "torch.randn(N, C)", "y": "torch.randn(T, C)", "z": "torch.randn(2, N, C)", "i": "torch.randint(0, N, (T,))",
    "j": "torch.randint(0, C, (T,))", "g": "torch.randint(0, N, (T, C - 1))",
}  # fmt: skip


@pytest.mark.by_default(2)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if k % 2 else pytest.mark.thorough) for k, form in enumerate(FORMS)]
)
def test_elements_at_places_are_right(form: str, every: bool, shared: SharedTools, tmp_path: Path) -> None:
    forward = FORMS[form]
    inputs = {name: code for name, code in INPUTS.items() if re.search(rf"\b{name}\b", forward)}
    case = problem(forward, SIZES, AWKWARD, **inputs)
    variants = variants_of(case, shared, tmp_path)
    if form == "then a product":  # every one of them reads a copy
        variants = variants[:1]
    if not every:
        variants = variants[:1]
    assert_right(case, variants, case.workloads, shared, tmp_path, compiled=form == "embedding")
