"""Bank conflicts of shared memory: known patterns, in wavefronts as the hardware's rule gives them."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen_core.execute.port import Executed
from cutegen_core.records.trial import SharedAccess, Status
from tests.execute.emulator.emulated import Harness, kernel, line_of, one

NAME = "k"
OUT = {"out": np.zeros(256, np.float32)}


def counted(harness: Harness, body: str, threads: int = 32, blocks: int = 1, order: str = "forward") -> Executed:
    ran = harness.run(kernel(NAME, body), {}, OUT, one(NAME, blocks, threads, "out:float32"), checked=True, order=order)
    assert ran.status is Status.PASSED, ran.executed.message
    return ran.executed


def reads(index: str, size: int = 4096, kind: str = "float") -> str:
    """A kernel whose threads fill shared memory with no conflict, and read it once at `index`."""
    return f"""
__global__ void k(float* out) {{
  __shared__ __align__(16) float s[{size}];
  int const t = threadIdx.x;
  for (int i = t; i < {size}; i += blockDim.x) s[i] = i;
  __syncthreads();
  {kind} const v = *({kind} const*)&s[{index}];  // READ
  float sum = 0;
  for (int i = 0; i < sizeof(v) / 4; ++i) sum += ((float const*)&v)[i];
  out[t] = sum;
}}
"""


def read_only(shared: SharedAccess, size: int = 4096) -> tuple[int, int]:
    """Wavefronts of the read, and how many it needs: without those of the writes, a wavefront for 32 floats."""
    return shared.wavefronts - size // 32, shared.least - size // 32


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("index", "kind", "wavefronts"),
    [
        ("t", "float", (1, 1)),
        ("t * 2", "float", (2, 1)),
        ("t * 32", "float", (32, 1)),
        ("t * 33", "float", (1, 1)),
        ("7", "float", (1, 1)),
        ("t / 2", "float", (1, 1)),
        ("t * 2", "float2", (2, 2)),
        ("t * 4", "float4", (4, 4)),
        ("t * 32", "float4", (32, 4)),
        ("t * 36", "float4", (4, 4)),
    ],
)
def test_a_warps_read_takes_as_many_wavefronts_as_the_rule_says(harness, index, kind, wavefronts):  # type: ignore[no-untyped-def]
    for order in ("forward", "random"):
        [found] = counted(harness, reads(index, kind=kind), order=order).shared
        assert read_only(found) == wavefronts, order


def test_the_line_that_loses_most_is_named(harness):  # type: ignore[no-untyped-def]
    body = reads("t * 32")
    [found] = counted(harness, body).shared
    assert found.conflicts == pytest.approx((128 + 32) / 129)
    assert found.line == line_of(kernel(NAME, body), "// READ")


def test_only_the_first_block_is_counted_and_every_warp_of_it(harness):  # type: ignore[no-untyped-def]
    one_warp = counted(harness, reads("t * 2 % 64", 64)).shared
    two = counted(harness, reads("t * 2 % 64", 64), threads=64, blocks=3).shared
    assert [(a.wavefronts, a.least) for a in (*one_warp, *two)] == [(4, 3), (2 + 4, 2 + 2)]


def test_loops_count_as_often_as_they_run(harness):  # type: ignore[no-untyped-def]
    body = """
__global__ void k(float* out) {
  __shared__ float s[32 * 100];
  int const t = threadIdx.x;
  for (int i = 0; i < 100; ++i) s[i * 32 + t] = i;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 100; ++i) sum += s[(t * 32 + i * 5) % 3200];
  out[t] = sum;
}
"""
    [found] = counted(harness, body).shared
    assert (found.wavefronts, found.least) == (100 + 32 * 100, 200)


def test_rows_of_ldmatrix_need_a_pitch(harness):  # type: ignore[no-untyped-def]
    def body(pitch: int) -> str:
        return f"""
__global__ void k(float* out) {{
  __shared__ __align__(16) __half s[16 * {pitch}];
  int const t = threadIdx.x;
  for (int i = t; i < 8 * {pitch}; i += 32) ((unsigned*)s)[i] = 0;
  __syncwarp();
  unsigned a[4];
  unsigned const at = __cvta_generic_to_shared(s + t % 16 * {pitch} + t / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
  out[t] = a[0] + a[1] + a[2] + a[3];
}}
"""

    worst, fine = (counted(harness, body(pitch)).shared[0] for pitch in (64, 72))
    assert (worst.wavefronts - 16, worst.least - 16) == (32, 4)
    assert (fine.wavefronts, fine.least) == (18 + 4, 18 + 4)


def test_a_kernel_without_shared_memory_has_no_count(harness):  # type: ignore[no-untyped-def]
    assert counted(harness, "__global__ void k(float* out) { out[threadIdx.x] = 1; }").shared == ()
