"""Operations on numbers of 16 bits take rough functions, which are as good as exact for every such number."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.later import Later
from tests.propose.playbook.right import problem, results_of, variants_of
from tests.shared_tools import SharedTools

if TYPE_CHECKING:
    import torch
else:
    torch = Later("torch")

OPERATIONS = (
    "torch.exp(x)", "torch.expm1(x)", "torch.tanh(x)", "torch.sigmoid(x)", "F.silu(x)", "F.gelu(x)",
    "F.gelu(x, approximate='tanh')", "F.mish(x)", "F.softplus(x)", "F.logsigmoid(x)", "F.elu(x)", "F.selu(x)",
    "F.celu(x, 0.5)", "F.hardswish(x)", "x / 7", "torch.erf(x)", "F.softplus(x, 2, 4)", "F.elu(x, 0.7)",
)  # fmt: skip
BETTER = {
    "F.gelu(x)": "x * torch.erfc(-x * 0.5**0.5) / 2",
    "F.gelu(x, approximate='tanh')": "x * torch.sigmoid((8 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))",
}
"""What 64 bits lose by a difference that cancels, written without it."""
EVERY = "torch.arange(N).to(torch.int16).view(torch.{0})"


@dataclass(frozen=True)
class Sixteen:
    """A type of 16 bits.

    Attributes:
        worst: units in the last place by which a result may be off; one that is rounded once is off by 0.5.
        nothing: what rough functions may take for 0.
    """

    name: str
    worst: float
    nothing: float


TYPES = (Sixteen("float16", 0.54, 0.0), Sixteen("bfloat16", 0.51, 2.0**-119))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_every_number_has_a_result_as_good_as_exact(shared: SharedTools, tmp_path: Path, kind: Sixteen) -> None:
    """Held against the same operation in 64 bits."""
    case = problem(", ".join(OPERATIONS), {"N": 65536}, {"N": 65536}, x=EVERY.format(kind.name))
    last = variants_of(case, shared, tmp_path)[-1]
    assert "rough_gelu" in last.source
    every = torch.arange(65536).to(torch.int16).view(getattr(torch, kind.name))
    scope = {"torch": torch, "F": torch.nn.functional, "x": every.double()}
    for operation, made in zip(OPERATIONS, results_of(case, last, shared, tmp_path), strict=True):
        exact = eval(BETTER.get(operation, operation), scope)
        rounded = exact.to(every.dtype)
        assert torch.equal(made.isnan(), rounded.isnan()), operation
        assert torch.equal(made[rounded.isinf()], rounded[rounded.isinf()]), operation
        finite = rounded.isfinite()
        info = torch.finfo(every.dtype)
        unit = info.eps * 2.0 ** exact[finite].abs().clamp(min=info.smallest_normal).log2().floor()
        far = (made[finite].double() - exact[finite]).abs() - kind.nothing
        worst = (far / unit).max().item()
        assert worst <= kind.worst, f"{operation}: {worst} units in the last place"
