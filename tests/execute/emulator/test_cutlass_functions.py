"""Functions of CUTLASS that are nothing on a host do on the emulator what they do on a device."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, kernel, one

OF_A_DEVICE = kernel(
    "told",
    """#include <cutlass/functional.h>
__global__ void told(float const* x, float* out, double* sums, half* pairs) {
  int const t = threadIdx.x;
  out[4 * t + 0] = cutlass::canonical_warp_idx_sync();
  out[4 * t + 1] = cutlass::canonical_warp_idx();
  out[4 * t + 2] = cutlass::canonical_lane_idx();
  out[4 * t + 3] = 10 * cutlass::canonical_warp_group_idx() + cutlass::thread0();
  if (t == 0) {
    out[4 * blockDim.x] = 0, out[4 * blockDim.x + 1] = -7, sums[0] = 0;
    for (int k = 0; k < 2; ++k) pairs[k] = __float2half(0.0f);
  }
  __syncthreads();
  cutlass::atomic_maximum<float>{}(&out[4 * blockDim.x + 1], x[t] - 60);
  cutlass::atomic_add<float>{}(&out[4 * blockDim.x], x[t]);
  cutlass::atomic_add<double>{}(&sums[0], double(x[t]));
  cutlass::atomic_add<half2>{}(reinterpret_cast<half2*>(pairs), __floats2half2_rn(1.0f, 2.0f));
}
""",
)


@pytest.fixture(scope="module")
def harness(executor: CpuExecutor, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return Harness(executor, tmp_path_factory.mktemp("cutlass"))


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
def test_warps_are_numbered_and_atomics_add(harness: Harness, checked: bool) -> None:
    threads = np.arange(160)
    plan = one("told", 1, 160, "x:float32", "out:float32", "sums:float64", "pairs:float16")
    outputs = {"out": np.zeros(642, np.float32), "sums": np.zeros(1), "pairs": np.zeros(2, np.float16)}
    given = {"x": threads.astype(np.float32)}
    ran = harness.run(OF_A_DEVICE, given, outputs, plan, checked=checked)
    assert ran.status is Status.PASSED, ran.executed
    told = ran.outputs["out"][:640].reshape(160, 4)
    want = np.stack([threads // 32, threads // 32, threads % 32, threads // 128 * 10 + (threads == 0)], axis=1)
    np.testing.assert_array_equal(told, want)
    assert (ran.outputs["out"][640], ran.outputs["sums"][0]) == (threads.sum(), threads.sum())
    assert ran.outputs["out"][641] == 99
    assert list(ran.outputs["pairs"]) == [160, 320]
