"""A model that reads values while it is built loads: short ranges are known, and what it draws is made."""

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


@pytest.mark.parametrize(
    ("code", "line"), [("[torch.rand(3).max().item()]", 7), ("[torch.zeros(1 << 40).sum().item()]", 6)]
)
def test_what_does_not_fit_is_refused_with_its_line(code: str, line: int) -> None:
    from cutegen_core.judge.reference_process import tracing
    from cutegen_core.judge.reference_process.loading.live import instantiate

    with tracing.fake_tensors(), pytest.raises(ProblemError, match=rf"model\.py:{line}: ran out of the memory"):
        instantiate(MODEL.format(found=code), "model.py")


DRAWN = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.near = nn.Linear(8, 8)
        self.again = self.near
        nn.init.trunc_normal_(self.near.weight, std=0.02)
        assert torch.isfinite(self.near.weight).all()
        self.scale = float(self.near.weight.abs().max())
        self.kept = self.near.weight.detach().nonzero()
    def forward(self, x):
        return self.again(self.near(x)) * self.scale + self.kept.shape[0]
def get_inputs():
    return [torch.randn(1 << 38, 8)]
"""


def test_a_model_that_reads_what_it_has_drawn_is_made_with_values_and_its_inputs_without() -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    from cutegen_core.judge.reference_process import tracing
    from cutegen_core.judge.reference_process.loading.live import instantiate

    with tracing.fake_tensors():
        live = instantiate(DRAWN, "model.py")
        assert [spec.shape for spec in tracing.signature_of(live).outputs] == [(1 << 38, 8)]
    assert 0 < live.model.scale < 1
    assert {"near_weight", "near_bias", "kept"} < set(live.tensors)
    assert all(isinstance(tensor, FakeTensor) for tensor in live.tensors.values())
    assert live.model.near.weight is live.model.again.weight
