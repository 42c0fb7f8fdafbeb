"""Stores to another block of a cluster that report to a barrier there (st.async): right kernels and seeded mistakes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, Ran, kernel, line_of, one

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
RIGHT, TURNS, BLOCKS = 0, 5, 4

# On each turn a block tells all of its cluster a number; each adds up what it hears. Two turns share no place.
TOLD = kernel(
    "told",
    """#include <cutlass/arch/barrier.h>
__global__ void told(float const* x, float* out, int turns, int mistake) {
  __shared__ alignas(16) float heard[2][16][2];
  __shared__ uint64_t full[2];
  int const t = threadIdx.x, blocks = int(cluster_shape().x), rank = int(block_rank_in_cluster());
  if (t == 0 && (mistake != 6 || rank == 0)) {
    for (int at = 0; at < 2; ++at) initialize_barrier(full[at], 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  if (mistake != 4) cluster_sync();
  float total = 0;
  for (int turn = 0; turn < turns; ++turn) {
    int const place = mistake == 1 ? 0 : turn % 2, phase = mistake == 1 ? turn % 2 : turn / 2 % 2;
    if (t == 0) set_barrier_transaction_bytes(full[place], (mistake == 3 ? 12 : 8) * blocks);
    if (t < blocks) {
      uint32_t const there = set_block_rank(cast_smem_ptr_to_uint(&heard[place][rank][0]), t);
      uint32_t const barrier = set_block_rank(cast_smem_ptr_to_uint(&full[place]), mistake == 9 ? (t + 1) % blocks : t);
      uint32_t const moved = mistake == 7 ? 4096 : mistake == 8 ? 4 : 0;
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];"  // sends
                   :: "r"(there + moved), "f"(x[blockIdx.x] + turn), "f"(1.0f), "r"(barrier) : "memory");
    }
    if (mistake != 2) wait_barrier(full[place], phase);
    for (int other = 0; other < blocks; ++other) total += heard[place][other][0] * heard[place][other][1];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + t] = total;
  if (mistake != 5) cluster_sync();
}
""",
)


@pytest.fixture(scope="module")
def harness(executor: CpuExecutor, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(executor, tmp_path_factory.mktemp("stores"))


def told(harness: Harness, mistake: int = RIGHT, *, checked: bool, blocks: int = BLOCKS, order: str = "forward") -> Ran:
    """Run two clusters, of which each thread of a block has the sum of all that its cluster told."""
    plan = one("told", 2 * blocks, 64, "x:float32", "out:float32", TURNS, mistake)
    plan = LaunchPlan((replace(plan.launches[0], cluster=(blocks, 1, 1)),))
    x = np.arange(2 * blocks, dtype=np.float32)
    outputs = {"out": np.zeros(2 * blocks * 64, np.float32)}
    return harness.run(TOLD, {"x": x}, outputs, plan, checked=checked, order=order)


@BUILDS
@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_blocks_tell_one_another(harness: Harness, checked: bool, blocks: int, order: str) -> None:
    ran = told(harness, checked=checked, blocks=blocks, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    sums = np.arange(2 * blocks, dtype=np.float32).reshape(2, blocks).sum(axis=1) * TURNS + blocks * sum(range(TURNS))
    np.testing.assert_array_equal(ran.outputs["out"], np.repeat(sums, blocks * 64))


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (1, "race", "could not yet know that it was done"),
        (2, "uninitialised", "heard"),
        (4, "cluster", "may not have begun"),
        (7, "out-of-bounds", ""),
        (8, "misaligned", "multiples of what is stored"),
        (9, "out-of-bounds", "one block of a cluster"),
    ],
)
def test_mistakes_are_found(harness: Harness, mistake: int, kind: str, words: str) -> None:
    for order in ("forward", "reverse"):
        ran = told(harness, mistake, checked=True, order=order)
        assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, kind), ran.executed
        assert words in f"{ran.finding.message} {ran.finding.variable}", ran.finding
    if mistake in (7, 8, 9):
        assert ran.finding.line == line_of(TOLD, "// sends")


def test_a_barrier_that_is_not_initialised_is_found(harness: Harness) -> None:
    ran = told(harness, 6, checked=True)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "uninitialised"), ran.executed
    assert ran.finding.variable == "full"


@BUILDS
def test_bytes_that_nobody_sends_are_a_deadlock_by_name(harness: Harness, checked: bool) -> None:
    ran = told(harness, 3, checked=checked)
    assert ran.finding.kind == "deadlock", ran.executed
    assert "16 bytes that were announced and that no copy brings" in ran.finding.message


@BUILDS
def test_a_wait_that_is_missing_gives_wrong_numbers(harness: Harness, checked: bool) -> None:
    ran = told(harness, 2, checked=checked)
    assert ran.status is Status.MEMORY_ERROR or np.isnan(ran.outputs["out"]).any()


def test_a_block_that_ends_too_early_is_found(harness: Harness) -> None:
    ran = told(harness, 5, checked=True)
    assert ran.finding.kind == "cluster", ran.executed
    assert "ended" in ran.finding.message or "ends while" in ran.finding.message
