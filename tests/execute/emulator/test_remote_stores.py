"""What a block does at barriers of another one of its cluster: stores that report there, arrivals, multicast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.records.launch import (
    Launch,
    LaunchPlan,
    ScalarArgument,
    TensorArgument,
    TensorMap,
    TensorMapArgument,
)
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
    if (mistake != 2 && (mistake != 5 || turn + 1 < turns)) wait_barrier(full[place], phase);
    for (int other = 0; other < blocks; ++other) total += heard[place][other][0] * heard[place][other][1];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + t] = total;
  if (mistake == 10 && rank == 0) wait_barrier(full[0], (turns + 1) / 2 % 2);
  if (mistake != 5) cluster_sync();
}
""",
)


# The first block loads boxes of 64 floats for all of its cluster, two at a time; each block adds them up, and tells the
# first one when a place may be filled again. On the way each hands a number to the next one by ordinary stores.
SPREAD = kernel(
    "spread",
    """#include <cutlass/arch/barrier.h>
__global__ void spread(const __grid_constant__ CUtensorMap boxes, float const* x, float* out, int turns, int mistake) {
  __shared__ alignas(128) float box[2][64];
  __shared__ float handed[16];
  __shared__ uint64_t full[2], empty[2], passed[1];
  int const t = threadIdx.x, blocks = int(cluster_shape().x), rank = int(block_rank_in_cluster());
  if (t == 0) {
    for (int at = 0; at < 2; ++at) initialize_barrier(full[at], 1), initialize_barrier(empty[at], blocks);
    initialize_barrier(passed[0], 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  cluster_sync();
  float total = 0;
  for (int turn = 0; turn < turns; ++turn) {
    int const at = turn % 2, phase = turn / 2 % 2;
    if (t == 0) {
      set_barrier_transaction_bytes(full[at], 256);
      if (rank == 0) {
        if (turn >= 2 && mistake != 1) wait_barrier(empty[at], phase ^ 1);
        uint16_t const mask = mistake == 2 ? 1u << blocks : (1u << blocks) - (mistake == 3 ? 2 : 1);
        if (turn % 4 < 2) SM90_TMA_LOAD_MULTICAST_2D::copy(&boxes, &full[at], mask, 0, box[at], 0, turn);  // all
        else asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                          "[%0], [%1], 256, [%2], %3;" :: "r"(cast_smem_ptr_to_uint(box[at])), "l"(x + 64 * turn),
                          "r"(cast_smem_ptr_to_uint(&full[at])), "h"(mask) : "memory");
      }
    }
    if (mistake != 4) wait_barrier(full[at], phase);
    total += box[at][t];
    cutlass::arch::fence_view_async_shared();
    __syncthreads();
    if (t == 0) cutlass::arch::ClusterBarrier::arrive(&empty[at], 0, mistake != 5);
  }
  uint32_t const next = set_block_rank(cast_smem_ptr_to_uint(&handed[0]), (rank + 1) % blocks);
  if (t == 0) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(next), "f"(float(rank)) : "memory");
    cutlass::arch::ClusterBarrier::arrive(&passed[0], (rank + 1) % blocks, true);
    if (mistake == 6) asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(next), "f"(float(rank)) : "memory");
  }
  wait_barrier(passed[0], 0);
  out[blockIdx.x * 64 + t] = total + handed[0];  // hears
  cluster_sync();
}
""",
)


# Each block hands what it copied to the next one by ordinary stores, and ends when it has heard the one before.
HANDED = kernel(
    "handed",
    """#include <cutlass/arch/barrier.h>
__global__ void handed(float const* x, float* out, int mistake) {
  __shared__ float own[32], box[32];
  __shared__ uint64_t ready[1], heard[1];
  int const t = threadIdx.x, blocks = int(cluster_shape().x), next = (int(block_rank_in_cluster()) + 1) % blocks;
  if (t == 0) {
    initialize_barrier(ready[0], 32), initialize_barrier(heard[0], mistake == 2 ? 16 : 32);
    cutlass::arch::fence_barrier_init();
  }
  cluster_arrive_relaxed();
  cluster_wait();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(cast_smem_ptr_to_uint(own + t)),
               "l"(x + blockIdx.x * 32 + t));
  cutlass::arch::cpasync_barrier_arrive_noinc(ready);
  wait_barrier(ready[0], 0);
  uint32_t const place = set_block_rank(cast_smem_ptr_to_uint(&box[t]), next);
  asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(place), "f"(own[31 - t]) : "memory");
  uint32_t const there = set_block_rank(cast_smem_ptr_to_uint(heard), next);
  if (mistake == 1) asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" :: "r"(there));
  else asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(there));
  asm volatile("{ .reg .pred p; ASK_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra ASK_%=; }"
               :: "r"(cast_smem_ptr_to_uint(heard)) : "memory");
  out[blockIdx.x * 32 + t] = box[t];
}
""",
)

# Each block loads a half of every box for both of its cluster, by CUTLASS's pipeline. Consumers tell both.
PIPED = kernel(
    "piped",
    """#include <cutlass/pipeline/pipeline.hpp>
__global__ void piped(const __grid_constant__ CUtensorMap halves, float* out, int turns, int relaxed) {
  using Pipeline = cutlass::PipelineTmaAsync<2>;
  __shared__ alignas(128) float box[2][64];
  __shared__ typename Pipeline::SharedStorage storage;
  int const group = threadIdx.x / 128, t = threadIdx.x % 128, rank = int(block_rank_in_cluster());
  typename Pipeline::Params params;
  params.transaction_bytes = 256, params.is_leader = t == 0, params.num_consumers = 128;
  params.role = group == 0 ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  Pipeline pipeline(storage, params, Shape<_2, _1, _1>{});
  if (relaxed == 0) cluster_sync();
  else if (relaxed == 1) cutlass::pipeline_init_arrive_relaxed(2), cutlass::pipeline_init_wait(2);
  if (group == 0) {
    if (t != 0) return;
    auto state = cutlass::make_producer_start_state<Pipeline>();
    for (int turn = 0; turn < turns; ++turn, ++state) {
      pipeline.producer_acquire(state);
      SM90_TMA_LOAD_MULTICAST_2D::copy(&halves, reinterpret_cast<uint64_t*>(pipeline.producer_get_barrier(state)), 3, 0,
                                       box[state.index()] + 32 * rank, 32 * rank, turn);
    }
    pipeline.producer_tail(state);
  } else {
    cutlass::PipelineState<2> state;
    float total = 0;
    for (int turn = 0; turn < turns; ++turn, ++state) {
      pipeline.consumer_wait(state);
      total += box[state.index()][t % 64];
      cutlass::arch::fence_view_async_shared();
      cutlass::arch::NamedBarrier::sync(128, 1);
      pipeline.consumer_release(state);
    }
    out[blockIdx.x * 128 + t] = total;
  }
}
""",
)


def spread(
    harness: Harness, mistake: int = RIGHT, *, checked: bool, blocks: int = BLOCKS, order: str = "forward"
) -> Ran:
    """Run a cluster, of which each block adds up seven boxes and the rank of the block before it."""
    x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
    boxes = TensorMap("boxes", "x", "float32", 0, (64, 7), (256,), (64, 1), (1, 1))
    arguments = [TensorMapArgument("boxes"), TensorArgument("x", "float32"), TensorArgument("out", "float32")]
    numbers = [ScalarArgument(7, "turns"), ScalarArgument(mistake, "mistake")]
    launch = Launch("spread", (blocks, 1, 1), (64, 1, 1), 0, (*arguments, *numbers), cluster=(blocks, 1, 1))
    outputs = {"out": np.zeros(blocks * 64, np.float32)}
    return harness.run(SPREAD, {"x": x}, outputs, LaunchPlan((launch,), (), (boxes,)), checked=checked, order=order)


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
def test_a_block_that_others_wait_for_at_a_barrier_of_the_cluster_is_a_deadlock(
    harness: Harness, checked: bool
) -> None:
    ran = told(harness, 10, checked=checked)
    assert ran.finding.kind == "deadlock", ran.executed
    assert "waits for ever at mbarrier" in ran.finding.message


@BUILDS
def test_a_wait_that_is_missing_gives_wrong_numbers(harness: Harness, checked: bool) -> None:
    ran = told(harness, 2, checked=checked)
    assert ran.status is Status.MEMORY_ERROR or np.isnan(ran.outputs["out"]).any()


def test_a_block_that_ends_too_early_is_found(harness: Harness) -> None:
    ran = told(harness, 5, checked=True)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "bulk-copy"), ran.executed
    assert "are under way: wait for their barrier" in ran.finding.message


@BUILDS
@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_one_block_loads_for_all(harness: Harness, checked: bool, blocks: int, order: str) -> None:
    ran = spread(harness, checked=checked, blocks=blocks, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    boxes = np.arange(7 * 64, dtype=np.float32).reshape(7, 64).sum(axis=0)
    before = (np.arange(blocks, dtype=np.float32)[:, None] - 1) % blocks
    np.testing.assert_array_equal(ran.outputs["out"].reshape(blocks, 64), boxes + before)


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (1, "race", "could not yet know that it was done"),
        (2, "out-of-bounds", "of mask 0x10 of a cluster of 4"),
        (3, "deadlock", "256 bytes that were announced and that no copy brings"),
        (4, "uninitialised, missing-wait", "box"),
        (5, "deadlock", "waits for ever at mbarrier"),
        (6, "race", "no barrier of the cluster in between"),
    ],
)
def test_mistakes_with_what_comes_to_all_are_found(harness: Harness, mistake: int, kind: str, words: str) -> None:
    for order in ("forward", "reverse"):
        ran = spread(harness, mistake, checked=True, order=order)
        assert ran.status is Status.MEMORY_ERROR, ran.executed
        assert ran.finding.kind in kind, ran.finding
        assert words in f"{ran.finding.message} {ran.finding.variable}", ran.finding


def piped(harness: Harness, relaxed: int, *, checked: bool, order: str) -> tuple[Ran, np.ndarray]:
    x = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)
    halves = TensorMap("halves", "x", "float32", 0, (64, 7), (256,), (32, 1), (1, 1))
    arguments = (TensorMapArgument("halves"), TensorArgument("out", "float32"), ScalarArgument(7, "turns"))
    arguments += (ScalarArgument(relaxed, "relaxed"),)
    plan = LaunchPlan((Launch("piped", (4, 1, 1), (256, 1, 1), 0, arguments, cluster=(2, 1, 1)),), (), (halves,))
    ran = harness.run(PIPED, {"x": x}, {"out": np.zeros(512, np.float32)}, plan, checked=checked, order=order)
    return ran, np.tile(x.sum(axis=0), (8, 1))


@BUILDS
@pytest.mark.parametrize("relaxed", [0, 1], ids=["ordered", "relaxed"])
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_a_pipeline_of_cutlass_loads_for_two_blocks(harness: Harness, relaxed: int, checked: bool, order: str) -> None:
    ran, want = piped(harness, relaxed, checked=checked, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    np.testing.assert_array_equal(ran.outputs["out"].reshape(8, 64), want)


def test_a_pipeline_that_no_barrier_makes_known_is_found(harness: Harness) -> None:
    ran, _ = piped(harness, 2, checked=True, order="forward")
    assert ran.status is Status.MEMORY_ERROR


def handed(harness: Harness, mistake: int = RIGHT, *, checked: bool, order: str = "forward") -> Ran:
    plan = one("handed", 8, 32, "x:float32", "out:float32", mistake)
    plan = LaunchPlan((replace(plan.launches[0], cluster=(4, 1, 1)),))
    x = np.arange(256, dtype=np.float32)
    return harness.run(HANDED, {"x": x}, {"out": np.zeros(256, np.float32)}, plan, checked=checked, order=order)


@BUILDS
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_arrivals_order_stores_and_the_end_of_a_block(harness: Harness, checked: bool, order: str) -> None:
    ran = handed(harness, checked=checked, order=order)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    want = np.roll(np.arange(256, dtype=np.float32).reshape(2, 4, 32)[..., ::-1], 1, axis=1)
    np.testing.assert_array_equal(ran.outputs["out"], want.reshape(-1))


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [(1, "race", "no barrier of the cluster in between"), (2, "deadlock mbarrier race", "")],
)
def test_arrivals_that_order_nothing_or_are_too_many_are_found(
    harness: Harness, mistake: int, kind: str, words: str
) -> None:
    ran = handed(harness, mistake, checked=True)
    assert ran.status is Status.MEMORY_ERROR, ran.executed
    assert ran.finding.kind in kind, ran.finding
    assert words in ran.finding.message
