"""A model that reads values while it is built loads without them being allocated, if they are of short ranges."""

import pytest

from cutegen_core.records.errors import ProblemError

MODEL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.found = {found}
        self.far = nn.Linear(1 << 20, 1 << 20)
    def forward(self, x):
        return x * float(self.found[-1])
def get_inputs():
    return [torch.randn(4)]
"""
FOUND = {
    "a range": ("[x.item() for x in torch.linspace(0, 0.5, 3)]", [0.0, 0.25, 0.5]),
    "a list": ("torch.linspace(0, 1, 3).tolist()", [0.0, 0.5, 1.0]),
    "arithmetic": ("[int(torch.arange(10)[3] + torch.tensor([1, 2])[1])]", [5]),
    "a decision": ("[2 if torch.arange(4).sum() > 5 else 3]", [2]),
    "numpy": ("list(map(float, torch.linspace(0, 1, 2).numpy()))", [0.0, 1.0]),
}


@pytest.mark.parametrize(("code", "expected"), FOUND.values(), ids=FOUND)
def test_values_of_short_ranges_are_known(code: str, expected: list[float]) -> None:
    from cutegen_core.judge.reference_process import tracing
    from cutegen_core.judge.reference_process.loading.live import instantiate

    with tracing.fake_tensors():
        live = instantiate(MODEL.format(found=code), "model.py")
        assert [tuple(spec.shape) for spec in tracing.signature_of(live).outputs] == [(4,)]
    assert live.model.found == expected


@pytest.mark.parametrize("code", ["[torch.rand(3).max().item()]", "[torch.zeros(1 << 40).sum().item()]"])
def test_others_are_refused_with_their_line(code: str) -> None:
    from cutegen_core.judge.reference_process import tracing
    from cutegen_core.judge.reference_process.loading.live import instantiate

    with tracing.fake_tensors(), pytest.raises(ProblemError, match=r"model\.py:6: "):
        instantiate(MODEL.format(found=code), "model.py")
