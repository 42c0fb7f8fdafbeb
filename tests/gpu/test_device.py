"""On a machine with a GPU: the device is found, and theoretical occupancy is the driver's own."""

import subprocess

import pytest

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import KNOWN, detect
from cutegen_core.records.launch import Launch
from tests.gpu.driver import Module

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]

KERNEL = """/* cutegen
[[launch]]
kernel = "busy<LIVE>"
grid = ["1"]
block = ["32"]
args = ["x"]
*/
template <int N>
__global__ __launch_bounds__(256) void busy(float* x) {
  float r[N];
  for (int i = 0; i < N; i++) r[i] = x[i * blockDim.x + threadIdx.x];
  for (int k = 0; k < 9; k++)
    for (int i = 0; i < N; i++) r[i] = r[i] * r[(i + 1) % N] + r[(i * 7 + 3) % N];
  for (int i = 0; i < N; i++) x[i * blockDim.x + threadIdx.x] = r[i];
}
"""


def test_the_gpu_is_found():
    device = detect()
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    assert device.name in name.stdout
    assert device.present
    known = KNOWN[device.arch]
    for field in ("smem_max", "smem_sm_bytes", "regs_per_sm", "threads_per_sm", "blocks_per_sm", "warp_size"):
        assert getattr(device, field) == getattr(known, field), field


@pytest.mark.parametrize("live", [4, 16, 48, 96, 200])
def test_occupancy_is_the_drivers(live, monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    device = detect()
    compiler = Compiler(device.arch)
    result = compiler.compile(parse(KERNEL.replace("LIVE", str(live))))
    compiler.close()
    assert result.kernels, result.log
    module = Module(result.cubin)
    (mangled,) = result.lowered.values()
    for block in (32, 64, 96, 128, 192, 256):
        for smem in (0, 1000, 20_000, 48_000, 90_000):
            launch = Launch("busy", (1, 1, 1), (block, 1, 1), smem, ())
            got = compute_occupancy(launch, result.kernels[0], device, "w").blocks_per_sm
            assert got == module.blocks_per_sm(mangled, block, smem), (block, smem, result.kernels[0])
