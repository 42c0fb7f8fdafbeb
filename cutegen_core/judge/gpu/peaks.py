"""Measure the device's best rates: `python -m cutegen_core.judge.gpu.peaks` prints one JSON object.

1. Memory: the driver's device-to-device copy and two kernels with 16-byte accesses, over gigabytes.
2. fp32: a loop of independent fused multiply-adds in registers. No library reaches that rate, so it is the right
   threshold for suspicion; torch.mm is also measured, as the rate that a product reaches in practice.
3. Tensor pipes: torch.mm, once on random values (the rate of real work) and once on zeros, which need hardly any power
   and therefore run at the highest clock: no kernel can exceed that rate.

Every figure is the median of ten runs between events; a ceiling is the fastest run. Torch is optional: without its CUDA
half the tensor pipes are not measured. No untrusted code runs in this process.
"""

from __future__ import annotations

import ctypes
import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import CudaDevice, call

REPEATS, WARM_UPS = 10, 3
SIDES: Mapping[str, int] = {"fp32": 4096, "fp64": 4096, "tf32": 8192, "f16": 8192, "bf16": 8192}
"""Sides of the square products, by pipe: large enough to fill any device, small enough to finish soon."""

_COPY_BYTES = 2 << 30
_BLOCK, _BLOCKS_PER_SM = 256, 16
_CHAINS, _UNROLLED, _ROUNDS = 8, 32, 512
_LOADS = 4


@dataclass(frozen=True)
class MeasuredPeaks:
    """Answer of the process.

    Attributes:
        copy_bytes_per_s: read plus written.
        flops_per_s, ceilings: by pipe; the rate on random values, and the highest rate in any measurement.
        notes: one line per measurement, for the page.
    """

    uuid: str
    device: str
    copy_bytes_per_s: float
    read_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    ceilings: Mapping[str, float]
    notes: tuple[str, ...]


class Rate(NamedTuple):
    """Work per second: of the median run, and of the fastest."""

    typical: float
    best: float


def main() -> None:
    """Print the measurements."""
    print(json.dumps(asdict(measure())))


def measure() -> MeasuredPeaks:
    """Measure everything on the first device; takes about ten seconds.

    Raises:
        DriverError: the driver refuses, for lack of memory for instance.
    """
    gpu = driver.start()
    notes: list[str] = []
    copy, read = _memory(gpu, notes)
    loop = _multiply_adds(gpu)
    notes.append(f"fp32: fused multiply-adds in registers {loop.typical / 1e12:.1f} TFLOP/s")
    flops, ceilings = {"fp32": loop.typical}, {"fp32": loop.best}
    for pipe, random, zeros in _products(notes):
        # cuBLAS is slower than the loop, but it is the rate to expect of a product
        flops[pipe] = random.typical
        ceilings[pipe] = max(ceilings.get(pipe, 0.0), random.best, zeros.best)
    return MeasuredPeaks(gpu.uuid, gpu.name, copy, read, flops, ceilings, tuple(notes))


# -- memory and fp32: kernels in PTX, so that no compiler is needed ----------------------------------------------------


class Kernels:
    """The three kernels, loaded into the current context."""

    def __init__(self) -> None:
        module = call(cuda.cuModuleLoadData, _ptx().encode() + b"\0")
        names = ("copy", "read", "multiply_add")
        self._functions = {name: call(cuda.cuModuleGetFunction, module, name.encode()) for name in names}

    def launch(self, name: str, blocks: int, *arguments: Any) -> None:  # noqa: ANN401 - ctypes values
        kinds = tuple(type(a) for a in arguments)
        values = tuple(a.value for a in arguments)
        call(cuda.cuLaunchKernel, self._functions[name], blocks, 1, 1, _BLOCK, 1, 1, 0, 0, (values, kinds), 0)


def _memory(gpu: CudaDevice, notes: list[str]) -> tuple[float, float]:
    nbytes = min(_COPY_BYTES, driver.free_memory_bytes() // 4)
    step = _BLOCK * _LOADS * 16
    nbytes = nbytes // step * step
    source, target = int(call(cuda.cuMemAlloc, nbytes)), int(call(cuda.cuMemAlloc, nbytes))
    call(cuda.cuMemsetD32, source, 0x3F812345, nbytes // 4)
    kernels, blocks = Kernels(), nbytes // step
    pointers = (ctypes.c_uint64(source), ctypes.c_uint64(target))
    by_driver = _rate(lambda: call(cuda.cuMemcpyDtoDAsync, target, source, nbytes, 0), 2 * nbytes)
    by_kernel = _rate(lambda: kernels.launch("copy", blocks, *pointers), 2 * nbytes)
    read = _rate(lambda: kernels.launch("read", blocks, *pointers), nbytes)
    for address in (source, target):
        call(cuda.cuMemFree, address)
    notes.append(
        f"memory: {nbytes >> 20} MiB copied by the driver at {by_driver.typical / 1e12:.2f} TB/s (read + written), "
        f"by a kernel at {by_kernel.typical / 1e12:.2f}; read only {read.typical / 1e12:.2f} TB/s"
    )
    return max(by_driver.typical, by_kernel.typical), read.typical


def _multiply_adds(gpu: CudaDevice) -> Rate:
    kernels, blocks = Kernels(), gpu.sm_count * _BLOCKS_PER_SM
    out = int(call(cuda.cuMemAlloc, 4))
    arguments = (ctypes.c_uint64(out), ctypes.c_float(0.9999), ctypes.c_float(0.0001), ctypes.c_uint32(_ROUNDS))
    flops = 2 * _CHAINS * _UNROLLED * _ROUNDS * _BLOCK * blocks
    rate = _rate(lambda: kernels.launch("multiply_add", blocks, *arguments), flops)
    call(cuda.cuMemFree, out)
    return rate


def _rate(run: Callable[[], object], work: int) -> Rate:
    """Time `run` on the default stream and return `work` per second."""
    begin, end = call(cuda.cuEventCreate, 0), call(cuda.cuEventCreate, 0)
    seconds = []
    for repeat in range(WARM_UPS + REPEATS):
        call(cuda.cuEventRecord, begin, 0)
        run()
        call(cuda.cuEventRecord, end, 0)
        call(cuda.cuEventSynchronize, end)
        if repeat >= WARM_UPS:
            seconds.append(call(cuda.cuEventElapsedTime, begin, end) / 1e3)
    return Rate(work / statistics.median(seconds), work / min(seconds))


def _ptx() -> str:
    """Return PTX of copy(from, to), read(from, to) and multiply_add(out, a, b, rounds); _LOADS words of 16 bytes a
    thread."""
    head = ".version 7.0\n.target sm_70\n.address_size 64\n"
    return head + _moving("copy", writes=True) + _moving("read", writes=False) + _looping()


def _moving(name: str, *, writes: bool) -> str:
    registers = [f"{{%w{4 * k}, %w{4 * k + 1}, %w{4 * k + 2}, %w{4 * k + 3}}}" for k in range(_LOADS)]
    offsets = [k * _BLOCK * 16 for k in range(_LOADS)]
    loads = [f"ld.global.v4.u32 {r}, [%from+{o}];" for r, o in zip(registers, offsets, strict=True)]
    stores = [f"st.global.v4.u32 [%to+{o}], {r};" for r, o in zip(registers, offsets, strict=True)]
    sums = ["mov.u32 %acc, 0;", *(f"xor.b32 %acc, %acc, %w{k};" for k in range(4 * _LOADS)),
            "setp.eq.u32 %odd, %acc, 305419896;", "@%odd st.global.u32 [%to], %acc;"]  # fmt: skip
    body = [
        "ld.param.u64 %from, [source];", "ld.param.u64 %to, [target];",
        "mov.u32 %t, %tid.x;", "mov.u32 %b, %ctaid.x;", f"mad.wide.u32 %at, %b, {_BLOCK * _LOADS * 16}, 0;",
        "mad.wide.u32 %at, %t, 16, %at;", "add.u64 %from, %from, %at;", "add.u64 %to, %to, %at;",
        *loads, *(stores if writes else sums),
    ]  # fmt: skip
    registers_of = f".reg .u64 %from, %to, %at;\n.reg .u32 %t, %b, %acc, %w<{4 * _LOADS}>;\n.reg .pred %odd;"
    return _entry(name, ".param .u64 source, .param .u64 target", registers_of, body)


def _looping() -> str:
    body = [
        "ld.param.u64 %out, [out];", "ld.param.f32 %a, [a];", "ld.param.f32 %b, [b];", "ld.param.u32 %n, [rounds];",
        "mov.u32 %t, %tid.x;", *(f"cvt.rn.f32.u32 %x{c}, %t;" for c in range(_CHAINS)),
        "again:", *(f"fma.rn.f32 %x{c}, %x{c}, %a, %b;" for _ in range(_UNROLLED) for c in range(_CHAINS)),
        "sub.u32 %n, %n, 1;", "setp.ne.u32 %more, %n, 0;", "@%more bra again;",
        *(f"add.f32 %x0, %x0, %x{c};" for c in range(1, _CHAINS)),
        "setp.eq.f32 %odd, %x0, 0f461C4000;", "@%odd st.global.f32 [%out], %x0;",
    ]  # fmt: skip
    registers = f".reg .u64 %out;\n.reg .f32 %a, %b, %x<{_CHAINS}>;\n.reg .u32 %n, %t;\n.reg .pred %more, %odd;"
    return _entry("multiply_add", ".param .u64 out, .param .f32 a, .param .f32 b, .param .u32 rounds", registers, body)


def _entry(name: str, parameters: str, registers: str, body: list[str]) -> str:
    return f".visible .entry {name}({parameters})\n{{\n{registers}\n" + "\n".join([*body, "ret;"]) + "\n}\n"


# -- products: the library's, through torch ----------------------------------------------------------------------------


def _products(notes: list[str]) -> Iterator[tuple[str, Rate, Rate]]:
    """Yield pipe, rate on random values, rate on zeros."""
    try:
        import torch
    except ImportError:
        notes.append("tensor pipes: not measured, PyTorch is not installed")
        return
    if not torch.cuda.is_available():
        notes.append("tensor pipes: not measured, this PyTorch has no CUDA")
        return
    for pipe, side in SIDES.items():
        random, zeros = _product(torch, pipe, side, zeros=False), _product(torch, pipe, side, zeros=True)
        notes.append(
            f"{pipe}: torch.mm {side}^3 {random.typical / 1e12:.1f} TFLOP/s on random values, "
            f"{zeros.best / 1e12:.1f} on zeros"
        )
        yield pipe, random, zeros


def _product(torch: Any, pipe: str, side: int, *, zeros: bool) -> Rate:  # noqa: ANN401 - torch is optional
    kinds = {"fp64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
    dtype = kinds.get(pipe, torch.float32)
    torch.set_float32_matmul_precision("high" if pipe == "tf32" else "highest")
    make = torch.zeros if zeros else torch.randn
    a, b = (make(side, side, dtype=dtype, device="cuda") for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device="cuda")
    return _rate(lambda: torch.mm(a, b, out=out), 2 * side**3)


if __name__ == "__main__":
    main()
