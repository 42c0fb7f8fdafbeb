"""How long a new candidate waits for the compiler: the workbench against plain NVRTC and against nvcc.

python -m benchmarks.toolchain.compile [ROUNDS]

1. Every round edits the kernel (so that no cache answers) and measures each way once, in turn: whatever else the
   machine does falls on all of them alike.
2. "workbench" is `Compiler.compile` as a session sees it, disassembly and folded log included, the server warm.
   "nvrtc" is the same program without the precompiled headers, "nvcc -cubin" and "nvcc -shared" the same code by nvcc,
   to a cubin as here and to a shared object as torch's `load_inline` makes it.
3. Medians and all samples, on the clock and of processor time, go to results/compile.json. Without nvcc in PATH its
   rows are left out, and it says so.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.conditions import processor_seconds, write
from benchmarks.trials import edited
from cutegen_core.execute.compiler import compile_server, nvrtc
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.machine import toolchain
from cutegen_core.records.trial import Status

ARCH = "sm_90a"
KERNELS = {
    "swish (elementwise)": "swish.cu", "sgemm (SIMT GEMM)": "sgemm.cu", "gemm_bf16 (tensor cores)": "gemm_bf16.cu",
}  # fmt: skip
FOLDER = Path(__file__).parents[2] / "tests" / "data" / "kernels"

Way = Callable[[KernelFile], None]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    load = os.getloadavg()[0]
    compiler = Compiler(ARCH)
    begun = time.monotonic()
    compiler.warm()
    warm_s = time.monotonic() - begun
    ways: dict[str, Way] = {"workbench": lambda kernel: _workbench(compiler, kernel), "nvrtc": _nvrtc}
    nvcc = shutil.which("nvcc")
    if nvcc:
        ways["nvcc -cubin"] = lambda kernel: _nvcc(nvcc, kernel, ("-cubin",))
        ways["nvcc -shared"] = lambda kernel: _nvcc(nvcc, kernel, ("-shared", "-Xcompiler", "-fPIC"))
    else:
        print("nvcc is not in PATH: not compared")
    kernels = {name: _measure(name, FOLDER / file, ways, rounds) for name, file in KERNELS.items()}
    compiler.close()
    run = {"arch": ARCH, "nvcc": _nvcc_version(nvcc), "load_before": round(load, 2), "server_start_s": round(warm_s, 3)}
    write("compile", {**run, "kernels": kernels})


def _measure(name: str, path: Path, ways: dict[str, Way], rounds: int) -> dict[str, object]:
    samples: dict[str, list[float]] = {way: [] for way in ways}
    processor: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, compile_once in ways.items():
            kernel = parse(edited(path.read_text()))
            begun, used = time.monotonic(), processor_seconds()
            compile_once(kernel)
            samples[way].append(time.monotonic() - begun)
            processor[way].append(processor_seconds() - used)
    medians = {way: statistics.median(values) for way, values in samples.items()}
    used_medians = {way: statistics.median(values) for way, values in processor.items()}
    for way, median in medians.items():
        used = f"{used_medians[way]:6.2f} s of processor time"
        print(f"{name:24} {way:12} {median:6.2f} s  x {median / medians['workbench']:.1f}  {used}  (n = {rounds})")
    return {
        "n": rounds,
        "median_s": {way: round(median, 3) for way, median in medians.items()},
        "times_the_workbench": {way: round(median / medians["workbench"], 2) for way, median in medians.items()},
        "median_processor_s": {way: round(median, 3) for way, median in used_medians.items()},
        "samples_s": {way: [round(value, 3) for value in values] for way, values in samples.items()},
    }


def _workbench(compiler: Compiler, kernel: KernelFile) -> None:
    result = compiler.compile(kernel)
    assert result.status is Status.PASSED, result.log
    assert not result.cached


def _nvrtc(kernel: KernelFile) -> None:
    """Compile in a fork, as the server does it, but with nothing precompiled."""
    child = os.fork()
    if child == 0:
        compiler = nvrtc.Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
        program = nvrtc.NvrtcProgram(compile_server.PROLOGUE + kernel.to_cpp(), "x.cu", kernel.kernel_names())
        done = compiler.compile(program, compile_server.compile_options(ARCH))
        os._exit(0 if done.code == nvrtc.SUCCESS else 1)
    assert os.waitpid(child, 0)[1] == 0


def _nvcc(nvcc: str, kernel: KernelFile, options: tuple[str, ...]) -> None:
    constants, body = kernel.to_cpp().split("#line", 1)
    # The headers come before the parameters, as in the workbench; an instantiation takes the place of name expressions.
    source = f"#include <cute/tensor.hpp>\n{constants}{body.split(chr(10), 1)[1]}\n{_instantiations(kernel)}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.cu"
        path.write_text(source)
        cutlass = toolchain.find_include_dirs()[0]
        subprocess.run(
            [nvcc, *options, "-std=c++17", f"-arch={ARCH}", "--expt-relaxed-constexpr",
             "-lineinfo", f"-I{cutlass}", str(path), "-o", str(Path(folder) / "made")],
            check=True,
        )  # fmt: skip


def _instantiations(kernel: KernelFile) -> str:
    parameters = re.search(r"__global__[^{;]*?\bvoid \w+(\([^)]*\))", kernel.body)
    assert parameters is not None
    templates = [name for name in kernel.kernel_names() if "<" in name]
    return "".join(f"template __global__ void {name}{parameters[1]};\n" for name in templates)


def _nvcc_version(nvcc: str | None) -> str:
    if nvcc is None:
        return "not in PATH: not compared"
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V([\d.]+)", text)
    return found[1] if found else text


if __name__ == "__main__":
    main()
