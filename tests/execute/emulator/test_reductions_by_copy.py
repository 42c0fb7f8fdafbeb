"""`cp.reduce.async.bulk`: what the copy engine adds to global memory, or reduces with it, as boxes and plain bytes."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen_core.records.launch import Launch, LaunchPlan, ScalarArgument, TensorArgument, TensorMap, TensorMapArgument
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import BFLOAT16, Harness, Ran, kernel, line_of

BUILDS = pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
BLOCKS = 3
SOURCE = kernel(
    ("begin", "adds"),
    """
__global__ void begin(float* out, bfloat16_t* halves, int* least) {
  for (int i = threadIdx.x; i < 64; i += blockDim.x) out[i] = 100.0f + i, halves[i] = bfloat16_t(i), least[i] = i;
}

// Each block adds its number to a box of 4 rows and 8 columns, half of which is the next block's, too.
__global__ void adds(const __grid_constant__ CUtensorMap to, bfloat16_t* halves, int* least, int mistake) {
  __shared__ alignas(128) float box[4 * 8];
  __shared__ alignas(16) bfloat16_t line[64];
  __shared__ alignas(16) int numbers[64];
  int const block = blockIdx.x, bytes = mistake == 3 ? 260 : int(sizeof numbers);
  auto const at = [](void* shared) { return cast_smem_ptr_to_uint(shared); };
  for (int i = threadIdx.x; i < 64; i += 32) {
    if (i < 32) box[i] = block + 1.0f;
    line[i] = bfloat16_t(block == 1 ? -1.0f : 2.0f);
    numbers[i] = 20 * block + 10;
  }
  tma_store_fence();
  __syncwarp();
  if (threadIdx.x == 0) {
    if (mistake != 1) SM90_TMA_REDUCE_ADD_2D::copy(&to, box, mistake == 2 ? 12 : 4 * block, 0);
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;"
                 :: "l"(halves), "r"(at(line)), "r"(int(sizeof line)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%0], [%1], %2;"
                 :: "l"(least), "r"(at(numbers)), "r"(bytes) : "memory");
    if (mistake == 5)
      asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
                   "[%0], [%1], 16, [%2];" :: "r"(at(box)), "r"(at(numbers)), "r"(at(line)) : "memory");
    if (mistake == 1) SM90_TMA_STORE_2D::copy(&to, box, 4 * block, 0);  // overwrites
    tma_store_arrive();
    if (mistake != 4) tma_store_wait<0>();
  }
}
""",
)


def added(harness: Harness, mistake: int = 0, *, checked: bool = False) -> Ran:
    """Let three blocks add to 4 rows of 16 floats, to 64 halves, and make 64 whole numbers as small as theirs."""
    to = TensorMap("to", "out", "float32", 0, (16, 4), (64,), (8, 4), (1, 1))
    halves, least = TensorArgument("halves", "bfloat16"), TensorArgument("least", "int32")
    begin = Launch("begin", (1, 1, 1), (32, 1, 1), 0, (TensorArgument("out", "float32"), halves, least))
    given = (TensorMapArgument("to"), halves, least, ScalarArgument(mistake, "mistake"))
    plan = LaunchPlan((begin, Launch("adds", (BLOCKS, 1, 1), (32, 1, 1), 0, given)), (), (to,))
    outputs = {
        "out": np.zeros((4, 16), np.float32),
        "halves": np.zeros(64, np.float32),
        "least": np.zeros(64, np.int32),
    }
    return harness.run(SOURCE, {}, outputs, plan, checked=checked, dtypes={"halves": BFLOAT16})


@BUILDS
def test_what_all_blocks_add_is_there(harness: Harness, checked: bool) -> None:
    ran = added(harness, checked=checked)
    assert (ran.status, ran.executed.findings) == (Status.PASSED, ()), ran.executed
    want = 100 + np.arange(64, dtype=np.float32).reshape(4, 16)
    for block in range(BLOCKS):
        want[:, 4 * block : 4 * block + 8] += block + 1
    np.testing.assert_array_equal(ran.outputs["out"], want)
    np.testing.assert_array_equal(ran.outputs["halves"], np.arange(64) + 3)
    np.testing.assert_array_equal(ran.outputs["least"], np.minimum(np.arange(64), 10))


def test_only_what_lies_inside_the_tensor_is_added_to(harness: Harness) -> None:
    ran = added(harness, mistake=2)
    assert ran.status is Status.PASSED
    want = 100 + np.arange(64, dtype=np.float32).reshape(4, 16)
    want[:, 12:] += 6
    np.testing.assert_array_equal(ran.outputs["out"], want)


def test_blocks_that_store_where_they_should_add_race(harness: Harness) -> None:
    ran = added(harness, mistake=1, checked=True)
    assert (ran.status, ran.finding.kind) == (Status.MEMORY_ERROR, "race"), ran.executed
    assert ran.finding.line == line_of(SOURCE, "// overwrites")


@BUILDS
@pytest.mark.parametrize(
    ("mistake", "status", "says"),
    [
        (3, Status.MEMORY_ERROR, "multiples of 16"),
        (4, Status.MEMORY_ERROR, "may still read its shared memory"),
        (5, Status.UNSUPPORTED, "cp.reduce.async.bulk.shared::cluster"),
    ],
)
def test_mistakes_are_told(harness: Harness, mistake: int, status: Status, says: str, checked: bool) -> None:
    ran = added(harness, mistake, checked=checked)
    assert ran.status is status, ran.executed
    assert says in (ran.executed.message + ran.finding.message if ran.executed.findings else ran.executed.message)
