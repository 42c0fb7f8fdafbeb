"""A kernel that evaluates CUDA's functions, at special numbers and others, and what an H200 computed of them.

`python -m tests.execute.emulator.function_table` on a machine with a GPU (sm_90a) records its results anew.
"""

from __future__ import annotations

import numpy as np

from cutegen_core.records.launch import LaunchPlan
from tests.execute.emulator.emulated import kernel, one
from tests.execute.emulator.on_gpu import run_on_gpu
from tests.places import DATA

RECORDED = DATA / "functions_h200.npz"
ONE = [
    "__expf", "__exp10f", "__logf", "__log2f", "__log10f", "__sinf", "__cosf", "__tanf", "__tanhf", "rsqrtf",
    "rcbrtf", "sinpif", "cospif", "erfinvf", "erfcinvf", "normcdff", "normcdfinvf", "exp10f", "expf", "exp2f", "logf",
    "log2f", "log10f", "log1pf", "expm1f", "tanhf", "sinhf", "coshf", "asinhf", "acoshf", "atanhf", "erff", "erfcf",
    "erfcxf", "lgammaf", "tgammaf", "sinf", "cosf", "tanf", "asinf", "acosf", "atanf", "sqrtf", "cbrtf", "floorf",
    "ceilf", "rintf", "roundf", "truncf", "nearbyintf", "logbf", "__frcp_rn", "__fsqrt_rn", "__frsqrt_rn",
    "__saturatef", "j0f", "j1f", "y0f", "y1f", "cyl_bessel_i0f", "cyl_bessel_i1f",
]  # fmt: skip
TWO = [
    "__powf", "powf", "__fdividef", "fdividef", "fmodf", "remainderf", "hypotf", "rhypotf", "atan2f", "fmaxf",
    "fminf", "fdimf", "nextafterf", "copysignf",
]  # fmt: skip
PTX = [f"{name}.approx{flushes}.f32" for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt") for flushes in ("", ".ftz")] + [
    "sin.approx.f32",
    "cos.approx.f32",
    "tanh.approx.f32",
]
HALF = [
    "hexp", "hexp2", "hexp10", "hlog", "hlog2", "hlog10", "hsin", "hcos", "hsqrt", "hrsqrt", "hrcp", "htanh",
    "htanh_approx", "hfloor", "hceil", "hrint", "htrunc",
]  # fmt: skip
NAMES = (*ONE, *TWO, *PTX, *(f"half {name}" for name in HALF), *(f"bfloat16 {name}" for name in HALF))
_SPECIAL = [
    0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-40, 1.5, -1.5, -1e-40, 1e-45, 1.17549435e-38,
    3.4e38, -3.4e38, 1e30, -1e30, 1e-30, 10, 100, 1000, 1e4, 1e5, -1e5, 1e6, 88, 89, -88, -104, -150, 127, 128, -126,
    -127, -149, 38, 39, -45, 65504, 70000, 1 / 3, 25, 26, 0.999,
]  # fmt: skip
_PAIRED, _RANDOM = 14, 160
COUNT = _PAIRED**2 + len(_SPECIAL) + _RANDOM


def arguments() -> tuple[np.ndarray, np.ndarray]:
    """Return x and y, float32: all pairs of some special numbers, all of these, random ones of all sizes."""
    paired = np.meshgrid(_SPECIAL[:_PAIRED], _SPECIAL[:_PAIRED])
    draw = np.random.default_rng(0)
    random = np.exp2(draw.uniform(-16, 12, (2, _RANDOM))) * draw.choice([-1, 1], (2, _RANDOM))
    parts = [np.stack([axis.ravel() for axis in paired]), np.stack([_SPECIAL, _SPECIAL[::-1]]), random]
    x, y = np.concatenate(parts, axis=1).astype(np.float32)
    return x, y


def source() -> str:
    """Return the kernel file: what function k makes of argument i goes to element (k, i)."""
    body = "\n".join(f"  {{ {_evaluation(name)} out[{k} * n + i] = r; }}" for k, name in enumerate(NAMES))
    return kernel(
        "functions",
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        "__global__ void functions(float const* x, float const* y, float* out, int n) {\n"
        "  int const i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
        f"  float const a = x[i], b = y[i];\n{body}\n}}\n",
    )


def _evaluation(name: str) -> str:
    if name in PTX:
        return f'float r; asm("{name} %0, %1;" : "=f"(r) : "f"(a));'
    small, _, function = name.rpartition(" ")
    if small:
        return f"float const r = __{small}2float({function}(__float2{small}(a)));"
    return f"float const r = {function}({'a, b' if name in TWO else 'a'});"


def plan() -> LaunchPlan:
    """Return the launch: a thread for each argument."""
    return one("functions", (-(-COUNT // 128), 1, 1), 128, "x:float32", "y:float32", "out:float32", COUNT)


def record() -> None:
    """Run the kernel on this machine's GPU and keep its results."""
    x, y = arguments()
    values = run_on_gpu(source(), plan(), {"x": x, "y": y}, np.zeros((len(NAMES), COUNT), np.float32))
    np.savez_compressed(RECORDED, names=np.array(NAMES), values=values)


if __name__ == "__main__":
    record()
