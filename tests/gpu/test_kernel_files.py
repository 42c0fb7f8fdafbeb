"""On a machine with a GPU: whole kernel files through compiler and executor, TMA and wgmma among them; checked runs
under compute-sanitizer; walls turned off; a host that dies."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.gpu import GpuExecutor
from cutegen_core.execute.nvidia import nvidia_tools
from cutegen_core.execute.port import Execution
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import detect
from cutegen_core.records.errors import MachineError
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Status
from tests import float8
from tests.gpu.harness import Harness, launch
from tests.places import DATA

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU")]

RNG = np.random.default_rng(9)
X = RNG.standard_normal(1000).astype(np.float32)
RELU = launch("relu", "x", "out", 1000, grid=4, block=256)


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    made = GpuExecutor(tmp_path_factory.mktemp("gpu") / "cache")
    yield made
    made.close()


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    harness = Harness(tmp_path_factory.mktemp("kernels"))
    yield harness
    harness.executor.close()


def bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def float32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def run_file(executor, folder, name, inputs, out_shape, dtype):
    """Return the output of a kernel file of tests/data; everything has one dtype, bfloat16 as its bits."""
    kernel = parse((DATA / name).read_text())
    specs = [TensorSpec(n, dtype, a.shape, TensorRole.INPUT) for n, a in inputs.items()]
    out = TensorSpec("out", dtype, out_shape, TensorRole.OUTPUT)
    compiler = Compiler(executor.device.arch, folder / "compile")
    result = compiler.compile(kernel)
    compiler.close()
    assert result.status is Status.PASSED, result.log
    built = executor.build(kernel, kernel.defaults(), lambda: result, checked=False)
    files = {spec: folder / spec.name for spec in (*specs, out)}
    for spec, array in zip(specs, inputs.values(), strict=True):
        files[spec].write_bytes(array.tobytes())
    files[out].write_bytes(bytes(out.nbytes))
    plan = kernel.plan(Signature(tuple(specs), (out,)), executor.device)
    with executor.open(built) as execute:
        ran = execute(Execution(built, plan, {s: files[s] for s in specs}, {out: files[out]}))
    assert ran.status is Status.PASSED, ran.message
    return np.frombuffer(files[out].read_bytes(), inputs[specs[0].name].dtype).reshape(out_shape)


@pytest.mark.skipif(detect() is not None and detect().arch != "sm_90a", reason="Hopper's own instructions")
@pytest.mark.parametrize(("m", "n", "k"), [(256, 512, 128), (200, 264, 72)])
def test_a_product_with_tma_and_wgmma(executor, tmp_path, m, n, k):
    a, b = (bfloat16(RNG.standard_normal(shape)) for shape in ((m, k), (n, k)))
    got = float32(run_file(executor, tmp_path, "gemm_bf16_wgmma.cu", {"a": a, "b": b}, (m, n), "bfloat16"))
    want = float32(a).astype(np.float64) @ float32(b).astype(np.float64).T
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2 * np.sqrt(k))


@pytest.mark.skipif(detect() is not None and detect().arch < "sm_90", reason="TMA")
def test_a_transpose_with_tma(executor, tmp_path):
    x = RNG.standard_normal((192, 136)).astype(np.float32)
    assert np.array_equal(run_file(executor, tmp_path, "transpose_tma.cu", {"x": x}, (136, 192), "float32"), x.T)


def test_conversions_of_8_bit_floats_are_those_of_the_emulators_test(executor, tmp_path):
    x, kernel = float8.samples(), parse(float8.KERNEL.read_text())
    compiler = Compiler(executor.device.arch, tmp_path / "compile")
    compiled = compiler.compile(kernel)
    compiler.close()
    assert compiled.status is Status.PASSED, compiled.log
    built = executor.build(kernel, kernel.defaults(), lambda: compiled, checked=False)
    signature = float8.signature(x)
    files = {spec: tmp_path / spec.name for spec in signature.tensors}
    for spec, path in files.items():
        path.write_bytes({"x": x.tobytes(), "codes": float8.CODES.tobytes()}.get(spec.name, bytes(spec.nbytes)))
    plan = kernel.plan(signature, executor.device)
    given, written = ({s: files[s] for s in part} for part in (signature.inputs, signature.outputs))
    with executor.open(built) as execute:
        ran = execute(Execution(built, plan, given, written))
    assert ran.status is Status.PASSED, ran.message
    for spec, output in zip(signature.outputs, float8.outputs(x), strict=True):
        wrong = output.wrong(files[spec].read_bytes())
        assert not wrong.size, (spec.name, wrong[:5])


needs_sanitizer = pytest.mark.skipif(nvidia_tools.find(nvidia_tools.SANITIZER) is None, reason="no compute-sanitizer")


@needs_sanitizer
def test_a_checked_run_of_an_honest_kernel_is_clean(gpu):
    with gpu.executor.open(replace(gpu.built, checked=True)) as execute:
        ran = gpu.run(RELU, execute=execute, x=X, out=np.zeros_like(X))
    assert ran.status is Status.PASSED, ran.message


@needs_sanitizer
def test_a_checked_run_names_the_line(gpu):
    with gpu.executor.open(replace(gpu.built, checked=True)) as execute:
        ran = gpu.run(launch("at", "out", 1000), execute=execute, x=X, out=np.zeros_like(X))
    text = (Path(__file__).parent / "gpu_kernels.cu").read_text()
    line = next(i for i, words in enumerate(text.splitlines(), 1) if "void at(" in words)
    assert ran.status is Status.MEMORY_ERROR
    assert (ran.executed.findings[0].kind, ran.executed.findings[0].line) == ("out-of-bounds", line), ran


def test_without_walls_the_executor_works_and_says_so(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_SANDBOX_MAX", "none")
    harness = Harness(tmp_path, gpu.built)
    ran = harness.run(RELU, x=X, out=np.zeros_like(X))
    assert np.array_equal(ran.out, np.maximum(X, 0))
    assert "sandbox: none" in harness.executor.describe()
    harness.executor.close()


def test_a_host_that_dies_is_a_fault_of_the_machine_and_is_replaced(gpu):
    with gpu.executor.open(gpu.built) as execute:
        for pid in (int(p.name) for p in Path("/proc").glob("[0-9]*")):
            if b"cutegen_core.execute.cuda.host" in _command(pid) and _parent(pid) == os.getpid():
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(MachineError, match="GPU host"):
            gpu.run(RELU, execute=execute, x=X, out=np.zeros_like(X))
    assert gpu.run(RELU, x=X, out=np.zeros_like(X)).status is Status.PASSED


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
