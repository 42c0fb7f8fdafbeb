"""What a draft's plan comes to before it is compiled, with the reference really asked for its shapes."""

from __future__ import annotations

import pytest

from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library
from cutegen_core.records.trial import KernelResources
from cutegen_core.views.plan_preview import PlannedWorkload, Signatures, preview, signatures_of

PLAN = """\
/* cutegen
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[params]
BLOCK = { default = 256, values = [128, 256] }
[[launch]]
kernel = "softmax<BLOCK>"
grid   = ["rows"]
block  = ["BLOCK"]
smem   = "4 * cols"
args   = ["x", "out", "cols"]
*/
template <int BLOCK> __global__ void softmax(float const* x, float* out, int cols) {}
"""
H100 = KNOWN["sm_90a"]
HEAVY = KernelResources("softmax<BLOCK>", "", 128, 0, 0, 0, 1024)


@pytest.fixture(scope="module")
def signatures() -> Signatures:
    return signatures_of(next(p for p in library.catalogue() if p.name == "softmax"))


def planned(text: str, signatures: Signatures, *compiled: KernelResources) -> dict[str, PlannedWorkload]:
    return {one.workload: one for one in preview(parse(text), signatures, H100, compiled)}


def test_every_workload_is_planned_with_the_registers_of_the_last_compile(signatures: Signatures) -> None:
    found = planned(PLAN, signatures, HEAVY)
    assert list(found) == list(signatures)
    (launch,) = found["benchmark"].launches
    row = launch.occupancy
    assert launch.compiled is HEAVY
    assert (row.grid[0], row.block[0], row.smem_bytes) == (4096, 256, 4 * 16384 + 1024)
    assert (row.blocks_per_sm, row.limiter, row.occupancy) == (2, "registers", 0.25)
    assert row.waves == pytest.approx(4096 / (2 * 132))


def test_without_a_compile_occupancy_is_that_of_what_is_known(signatures: Signatures) -> None:
    (launch,) = planned(PLAN, signatures)["benchmark"].launches
    assert launch.compiled is None
    assert (launch.occupancy.limiter, launch.occupancy.blocks_per_sm) == ("shared memory", 3)
    other = PLAN.replace("softmax<BLOCK>", "softmax<128>")
    assert planned(other, signatures, HEAVY)["benchmark"].launches[0].compiled is HEAVY


def test_what_one_workload_breaks_is_said_with_its_line_and_the_others_are_planned(signatures: Signatures) -> None:
    found = planned(PLAN.replace('"4 * cols"', '"16 * cols"'), signatures)
    refused = found["benchmark"]
    assert (refused.launches, refused.line) == ((), 11)
    assert "262144 bytes of shared memory" in refused.refusal
    assert found["one"].launches
