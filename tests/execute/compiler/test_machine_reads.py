"""The machine code shows whether blocks can tell one another something, and what a kernel reads of the machine."""

from __future__ import annotations

import pytest

from cutegen_core.execute.compiler.machine_reads import blocks_communicate, find_machine_reads
from cutegen_core.kernel.kernel_file import parse
from tests.adversarial.files import RELU, relu
from tests.shared_tools import SharedTools

WAYS = {
    "nothing": (RELU, False),
    "an atomic": (f"{RELU}\n  if (i < n && x[i] > 9) atomicAdd(out + n - 1, 1.0f);", True),
    "an atomic of the block": (
        "__shared__ int most;\n  if (threadIdx.x == 0) most = 0;\n  __syncthreads();\n"
        f"  atomicMax(&most, int(i));\n  __syncthreads();\n  if (most < -1) return;\n  {RELU}",
        False,
    ),
    "a volatile read": (f"float v = *(float const volatile*)(out + n / 2);\n  if (v == 3) return;\n  {RELU}", True),
    "a fence": (f"{RELU}\n  __threadfence();\n  if (i < n) out[i] += 0.0f;", True),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize(("statements", "talks"), WAYS.values(), ids=list(WAYS))
def test_how_blocks_can_communicate(shared: SharedTools, statements: str, talks: bool) -> None:
    assert blocks_communicate(shared.compiler().compile(parse(relu(statements))).sass) is talks


def test_a_declared_read_is_a_warning_at_its_line(shared: SharedTools) -> None:
    kernel = parse(relu(f"if (clock64() == 5) return;  // HERE\n  {RELU}"))
    sass = shared.compiler().compile(kernel).sass
    (refused,), (declared,) = find_machine_reads(sass, ()), find_machine_reads(sass, ("clock",))
    assert (refused.severity, declared.severity) == ("error", "warning")
    assert "HERE" in kernel.text.splitlines()[refused.line - 1]
