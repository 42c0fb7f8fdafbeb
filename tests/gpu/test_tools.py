"""On a machine with a GPU and NVIDIA's tools: the sanitizer names each seeded defect at its line and nothing in honest
kernels, the profiler sees the known bottleneck, peaks are what such a device can do."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutegen_core.doctor import report
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import Function, make_program
from cutegen_core.execute.cuda.standalone import write_spec
from cutegen_core.execute.nvidia import nvidia_tools, profiling, sanitizer
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import detect
from cutegen_core.propose.prompting import profile_notes
from cutegen_core.records.errors import MachineError
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Status
from tests.gpu.harness import launch
from tests.places import DATA

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]
needs_sanitizer = pytest.mark.skipif(nvidia_tools.find(nvidia_tools.SANITIZER) is None, reason="no compute-sanitizer")
needs_profiler = pytest.mark.skipif(nvidia_tools.find(nvidia_tools.NCU) is None, reason="no Nsight Compute")

SOURCE = (Path(__file__).parent / "seeded_defects.cu").read_text()
BIG = 1 << 24


def line_of(mark):
    return next(i for i, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"// {mark}"))


class Bench:
    """Compiles the seeded kernels once and writes specs for them."""

    def __init__(self, folder):
        self.folder, self.cubin = folder, folder / "candidate.cubin"
        compiler = Compiler(detect().arch, folder / "compile")
        result = compiler.compile(parse(SOURCE))
        compiler.close()
        assert result.status is Status.PASSED, result.log
        self.cubin.write_bytes(result.cubin)
        self.functions = {name: Function(mangled, demangle(mangled)) for name, mangled in result.lowered.items()}

    def spec(self, *launches, n=64, out=64, **more):
        values = self.folder / f"x{n}"
        values.write_bytes(np.random.default_rng(1).standard_normal(n).astype(np.float32).tobytes())
        spec = self.folder / "spec.json"
        made = make_program(LaunchPlan(launches), self.functions)
        write_spec(spec, self.cubin, made, {"x": values}, {"out": 4 * out}, **more)
        return spec


def step(kernel, n=64, grid=1, block=64):
    return launch(kernel, "x", "out", n, grid=grid, block=block)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("seeded"))


DEFECTS = {
    "read_past_end": "out-of-bounds", "write_past_end<4>": "out-of-bounds", "copy_past_end": "out-of-bounds",
    "misaligned": "misaligned", "shared_past_end": "out-of-bounds", "race": "race",
    "uninitialised": "uninitialised", "divergent_barrier": "divergent-barrier",
}  # fmt: skip


@needs_sanitizer
@pytest.mark.parametrize("kernel", DEFECTS)
def test_a_seeded_defect_is_found_at_its_line(bench, kernel):
    found = sanitizer.check(bench.spec(step(kernel)))
    seen = {(f.kind, f.line) for f in found}
    assert (DEFECTS[kernel], line_of(kernel.split("<")[0])) in seen, found
    assert {f.kernel for f in found} == {kernel}


@needs_sanitizer
def test_an_honest_kernel_is_clean(bench):
    started = time.monotonic()
    assert sanitizer.check(bench.spec(step("clean_sum"))) == ()
    assert sanitizer.check(bench.spec(step("vector_copy<256>", grid=1, block=256))) == ()
    assert time.monotonic() - started < 20


HOPPER = detect() is not None and detect().arch == "sm_90a"
FILES = {
    "relu.cu": ({"x": ("float32", (1000,))}, (1000,)),
    "gemm_bf16_wgmma.cu": ({"a": ("bfloat16", (200, 72)), "b": ("bfloat16", (264, 72))}, (200, 264)),
    "transpose_tma.cu": ({"x": ("float32", (192, 136))}, (136, 192)),
}


@needs_sanitizer
@pytest.mark.parametrize("name", FILES if HOPPER else ["relu.cu"])
def test_honest_kernel_files_are_clean(tmp_path, name):
    inputs, shape = FILES[name]
    kernel = parse((DATA / name).read_text())
    specs = [TensorSpec(n, dtype, extents, TensorRole.INPUT) for n, (dtype, extents) in inputs.items()]
    out = TensorSpec("out", specs[0].dtype, shape, TensorRole.OUTPUT)
    compiler = Compiler(detect().arch, tmp_path / "compile")
    result = compiler.compile(kernel)
    compiler.close()
    functions = {name: Function(mangled, demangle(mangled)) for name, mangled in result.lowered.items()}
    made = make_program(kernel.plan(Signature(tuple(specs), (out,)), detect()), functions)
    (tmp_path / "candidate.cubin").write_bytes(result.cubin)
    for tensor in specs:
        (tmp_path / tensor.name).write_bytes(np.full(tensor.nbytes // 2, 0x3F80, np.uint16).tobytes())
    spec = tmp_path / "spec.json"
    files = {tensor.name: tmp_path / tensor.name for tensor in specs}
    write_spec(spec, tmp_path / "candidate.cubin", made, files, {"out": out.nbytes})
    assert sanitizer.check(spec) == ()


@needs_sanitizer
def test_a_kernel_that_never_ends_is_a_finding(bench):
    started = time.monotonic()
    found = sanitizer.check(bench.spec(step("endless"), timeout_s=1.0), ("memcheck", "racecheck"), timeout_s=20.0)
    assert [f.kind for f in found] == ["timeout"]
    assert time.monotonic() - started < 10


@needs_profiler
def test_known_bottlenecks_are_seen(bench):
    steps = (
        launch("bank_conflicts", "x", "out", BIG, grid=1024, block=1024),
        launch("strided_copy", "x", "out", BIG, grid=BIG // 256, block=256),
        launch("vector_copy<256>", "x", "out", BIG, grid=BIG // 1024, block=256),
    )
    found = profiling.profile(bench.spec(*steps, n=BIG, out=BIG), "large")
    assert [k.kernel for k in found.kernels] == ["bank_conflicts", "strided_copy", "vector_copy<256>"]
    conflicts, strided, fast = found.kernels
    assert conflicts.metric("shared memory cycles lost to bank conflicts").value > 90
    assert strided.metric("bytes used per 32 B sector, loads").value == pytest.approx(4.0)
    assert fast.metric("bytes used per 32 B sector, loads").value == pytest.approx(32.0)
    assert fast.metric("DRAM throughput").value > 50
    assert fast.metric("duration").value < strided.metric("duration").value
    for kernel in found.kernels:
        assert kernel.advice
        assert kernel.lines[0].samples > 0
        assert kernel.lines[0].line > SOURCE[: SOURCE.index("#include")].count("\n")
        assert len(kernel.metrics) >= 17
    assert "x[row * width + column]" in SOURCE.splitlines()[strided.lines[0].line - 1]
    assert "tanhf" in SOURCE.splitlines()[fast.lines[0].line - 1]
    print(profile_notes.text(found, SOURCE))
    assert found.tool.startswith("Nsight Compute 20")


@needs_profiler
def test_a_run_that_fails_is_no_profile(bench):
    with pytest.raises(MachineError, match="did not run under Nsight Compute"):
        profiling.profile(bench.spec(replace(step("clean_sum"), smem_bytes=1 << 30)), "w")


def test_peaks_are_measured_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    device = detect()
    assert peaks.load(device) is None
    found = peaks.measure(device)
    assert peaks.load(device) == found
    assert found.device == device.name
    assert 1e11 < found.copy_bytes_per_s < 2e13
    assert found.flops_per_s["fp32"] <= found.ceilings["fp32"]
    assert "SM clock" in found.how
    print(json.dumps({"copy": found.copy_bytes_per_s, "read": found.read_bytes_per_s, **found.flops_per_s}))


@needs_profiler
def test_the_profiler_can_be_tried_out():
    assert "reads the counters" in profiling.try_out()


def test_the_doctor_speaks_of_this_gpu():
    checks = {c.name: c for c in report.run_checks()}
    assert detect().name in checks["GPU"].detail
    assert "MHz" in checks["GPU now"].detail
    for check in checks.values():
        print(f"{check.state:8} {check.name:22} {check.detail}" + (f"\n         fix: {check.fix}" if check.fix else ""))
