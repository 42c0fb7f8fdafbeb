"""Clusters of several blocks on the emulator: right kernels, seeded mistakes, and what it refuses by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, Ran, kernel, line_of, one

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
RIGHT = 0

# Each block of a cluster of four sums up 64 numbers; each of its threads then adds up what all blocks found.
SUMS = kernel(
    "sums",
    """#include <cooperative_groups.h>
__global__ void sums(float const* x, float* out, int mistake) {
  __shared__ float partial[2];
  auto cluster = cooperative_groups::this_cluster();
  int const t = threadIdx.x, rank = int(block_rank_in_cluster());
  if (t == 0) partial[0] = 0;
  if (mistake == 0) { cluster_arrive_relaxed(); cluster_wait(); }
  else if (mistake != 1) cluster_sync();
  if (t == 0) {
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += x[blockIdx.x * 64 + i];
    partial[0] = sum;
  }
  if (mistake == 9) { cluster_arrive_relaxed(); cluster_wait(); __syncthreads(); }
  else if (mistake == 2) __syncthreads();
  else if (mistake != 1) cluster.sync();
  float total = 0;
  for (int other = 0; other < int(cluster_shape().x); ++other) {
    uint32_t const there = set_block_rank(cast_smem_ptr_to_uint(&partial[mistake == 5]), other + (mistake == 6));
    float one;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(one) : "r"(there + (mistake == 7 ? 8 : 0)));  // reads it
    total += one + *cluster.map_shared_rank(&partial[0], other) * 0.0f;
  }
  if (mistake == 8) out[t] = total + float(cluster_id_in_grid().x);
  else out[blockIdx.x * 32 + t] = total;
  if (mistake == 10) asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 4;"
                                  :: "r"(set_block_rank(cast_smem_ptr_to_uint(&partial[0]), (rank + 1) % 4)));
  if (mistake != 3 || rank == 3) cluster_sync();
}
""",
)

# A block tells the next one, by its shared memory; `arrive` and `wait` are apart.
RING = kernel(
    "ring",
    """__global__ void ring(float const* x, float* out, int mistake) {
  __shared__ float box[64], turned[64];
  int const t = threadIdx.x, blocks = int(cluster_shape().x), rank = int(block_rank_in_cluster());
  auto there = [&](int i) { return set_block_rank(cast_smem_ptr_to_uint(&box[i]), (rank + 1) % blocks); };
  auto send = [&] {
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there(t)), "f"(x[blockIdx.x * 64 + t]) : "memory");
  };
  box[t] = 0;
  cluster_arrive();
  float const own = x[blockIdx.x * 64 + t];
  turned[63 - t] = own;
  __syncthreads();
  float const mirrored = turned[t];
  cluster_wait();
  if (mistake == 4 && rank == 2) cluster_wait();
  if (mistake != 2) send();
  if (mistake == 3 && rank == 1 && t == 5) return;
  cluster_arrive();
  if (mistake == 2) send();
  if (mistake == 1 && t == 7) cluster_arrive();
  if (mistake != 6) cluster_wait();
  if (mistake == 7) box[63 - t] = own;
  if (mistake == 7) out[blockIdx.x * 64 + t] = box[t];
  else out[blockIdx.x * 64 + t] = box[t] + 0.0f * mirrored;
  if (mistake == 6) cluster_wait();
}
""",
)

# Blocks add to the first one's counters, write neighbouring halves, and all write the same number.
SHARED_WORK = kernel(
    "work",
    """#include <cooperative_groups.h>
__global__ void work(float const* x, float* out, half_t* halves, float* count) {
  __shared__ int counters[4];
  __shared__ half_t kept[8];
  auto cluster = cooperative_groups::this_cluster();
  int const t = threadIdx.x, rank = int(cluster.block_rank());
  if (t < 4) counters[t] = 0;
  if (t == 0) halves[blockIdx.x] = half_t(float(rank));
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&counters[0], 0) + t % 4, rank + 1);
  if (t == 0) cluster.map_shared_rank(&kept[0], 1)[rank] = half_t(x[blockIdx.x]);
  auto token = cluster.barrier_arrive();
  if (t < 32) cluster.barrier_wait(std::move(token));
  __syncthreads();
  int const counted = cluster.map_shared_rank(&counters[0], 0)[t % 4];
  if (t == 0) count[blockIdx.x / 4] = float(counted);
  if (rank == 1 && t < 4) out[blockIdx.x / 4 * 4 + t] = float(kept[t]);
  if (t >= 32) cluster.barrier_wait();
  cluster.sync();
  if (rank == 0 && t == 0) halves[blockIdx.x + 1] = half_t(float(halves[blockIdx.x + 1]) + 1.0f);
}
""",
)


@pytest.fixture(scope="module")
def harness(executor: CpuExecutor, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(executor, tmp_path_factory.mktemp("clusters"))


def clustered(plan: LaunchPlan, blocks: int) -> LaunchPlan:
    return LaunchPlan((replace(plan.launches[0], cluster=(blocks, 1, 1)),))


def sums(harness: Harness, mistake: int, *, checked: bool, order: str = "forward") -> tuple[Ran, np.ndarray]:
    x = np.arange(8 * 64, dtype=np.float32)
    plan = clustered(one("sums", 8, 32, "x:float32", "out:float32", mistake), 4)
    ran = harness.run(SUMS, {"x": x}, {"out": np.zeros(256, np.float32)}, plan, checked=checked, order=order)
    return ran, np.repeat(x.reshape(2, 256).sum(axis=1), 128)


def ring(
    harness: Harness, mistake: int, *, checked: bool, blocks: int = 4, order: str = "forward"
) -> tuple[Ran, np.ndarray]:
    x = np.arange(8 * 64, dtype=np.float32)
    plan = clustered(one("ring", 8, 64, "x:float32", "out:float32", mistake), blocks)
    ran = harness.run(RING, {"x": x}, {"out": np.zeros(512, np.float32)}, plan, checked=checked, order=order)
    return ran, np.roll(x.reshape(8 // blocks, blocks, 64), 1, axis=1).reshape(-1)


@BUILDS
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_blocks_read_one_anothers_shared_memory(harness: Harness, checked: bool, order: str) -> None:
    ran, expected = sums(harness, RIGHT, checked=checked, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ())
    np.testing.assert_array_equal(ran.outputs["out"], expected)


@BUILDS
@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_blocks_write_one_anothers_shared_memory(harness: Harness, checked: bool, blocks: int, order: str) -> None:
    ran, expected = ring(harness, RIGHT, checked=checked, blocks=blocks, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ())
    np.testing.assert_array_equal(ran.outputs["out"], expected)


@BUILDS
def test_atomics_neighbouring_halves_and_the_same_number_are_no_races(harness: Harness, checked: bool) -> None:
    x = np.arange(8, dtype=np.float32)
    plan = clustered(one("work", 8, 64, "x:float32", "out:float32", "halves:float16", "count:float32"), 4)
    outputs = {"out": np.zeros(8, np.float32), "halves": np.zeros(8, np.float16), "count": np.zeros(2, np.float32)}
    ran = harness.run(SHARED_WORK, {"x": x}, outputs, plan, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ())
    np.testing.assert_array_equal(ran.outputs["out"], x)
    np.testing.assert_array_equal(ran.outputs["halves"], [0, 2, 2, 3, 0, 2, 2, 3])
    np.testing.assert_array_equal(ran.outputs["count"], [160, 160])


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (1, "cluster", "may not have begun"),
        (2, "race", "with no barrier of the cluster in between"),
        (9, "race", "with no barrier of the cluster in between"),
        (3, "cluster", "must wait at a barrier of the cluster behind"),
        (5, "uninitialised", "which no block has written"),
        (6, "out-of-bounds", "block 4 of its cluster, which has 4"),
        (7, "out-of-bounds", "out of bounds"),
        (8, "race", "of another cluster wrote in the same launch; clusters run in any order"),
    ],
)
def test_mistakes_are_found(harness: Harness, mistake: int, kind: str, words: str) -> None:
    for order in ("forward", "reverse"):
        ran, _ = sums(harness, mistake, checked=True, order=order)
        assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, kind), ran.finding
        assert words in ran.finding.message, ran.finding
    if mistake in (5, 7):
        assert (ran.finding.variable, ran.finding.line) == ("partial", line_of(SUMS, "// reads it"))


def test_what_is_not_done_at_barriers_of_another_block_is_unsupported_by_name(harness: Harness) -> None:
    ran, _ = sums(harness, 10, checked=True)
    assert ran.status is Status.UNSUPPORTED
    assert "shared memory of another block" in ran.executed.message


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (1, "divergent-barrier", "arrives a second time"),
        (2, "race", "of this cluster wrote with no barrier of the cluster in between"),
        (4, "divergent-barrier", "without having arrived"),
        (6, "race", "of this cluster wrote with no barrier of the cluster in between"),
        (7, "race", "with no barrier in between"),
    ],
)
def test_mistakes_with_arrive_and_wait_are_found(harness: Harness, mistake: int, kind: str, words: str) -> None:
    ran, _ = ring(harness, mistake, checked=True)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, kind), ran.finding
    assert words in ran.finding.message
