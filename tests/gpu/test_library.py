"""On a machine with a GPU and nvcc: exported operators, drop-ins and patched originals compute what they should."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.machine import toolchain
from cutegen_core.machine.device import detect
from cutegen_core.problems import library as problems
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports import nvcc
from cutegen_core.share.exports.library import dropin
from cutegen_core.share.exports.library.facts import Original, collect
from cutegen_core.share.exports.library.patch import patched
from cutegen_core.share.exports.library.project import library
from cutegen_core.share.imports.plain_cu import import_kernel
from tests.later import Later
from tests.places import DATA
from tests.share.plain_problems import PROBLEMS

torch = Later("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(detect() is None, reason="needs a CUDA GPU"),
    pytest.mark.skipif(nvcc.find() is None, reason="needs nvcc"),
]
FILES = ["rmsnorm_macro.cu", "add_norm_inplace.cu", "silu_dispatch.cu", "softmax_chain.cu"]
SERVING = ["fused_add_rmsnorm", "silu_and_mul", "merge_attn_states_lse"]


def arch():
    return detect().arch


def environment():
    return {**os.environ, "CUDA_HOME": str(nvcc.find().parent.parent), "PYTHONPATH": "", **cutlass()}


def cutlass():
    folder = toolchain.find_include_dirs()[0]
    return {"CUTLASS_PATH": str(folder.parent)} if folder.name == "include" else {}


def bundled(problem, text, compiler):
    compiled = compiler.compile(kernel_file.parse(text))
    return bundles.build(problem, text, arch(), "c" * 64, "a test", kernels=compiled.kernels)


@pytest.fixture(scope="module")
def compiler():
    made = Compiler(arch())
    yield made
    made.close()


@pytest.fixture
def facts_of(compiler, tmp_path):
    def take(file):
        problem = PROBLEMS[file]()
        text = (DATA / "plain" / file).read_text()
        with Reference(problem, tmp_path / "reference") as reference:
            signatures = {w.name: reference.signature(w) for w in problem.workloads}
        imported = import_kernel(text, file, problem, signatures).text
        problem = replace(problem, existing=imported)
        return collect(bundled(problem, imported, compiler), Original(file, text))

    return take


def checked(files, folder):
    """Run the exported check and return its rows."""
    folder.mkdir()
    for path, text in files.items():
        (folder / path).write_text(text)
    done = subprocess.run(
        [sys.executable, "check.py", "--json"], cwd=folder, env=environment(), capture_output=True, text=True,
        check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("file", FILES)
def test_the_exported_operator_is_right_on_every_shape(facts_of, tmp_path, file):
    facts = facts_of(file)
    found = checked(library(replace(facts.bundle, original=tuple(facts.original))), tmp_path / "exported")
    assert all(row["right"] and row["us"].keys() == {"eager", "exported", "original"} for row in found["shapes"])
    assert found["lines_of_code"]["before"] > 0


@pytest.mark.parametrize("name", SERVING)
def test_a_serving_kernel_goes_back_as_an_operator(compiler, tmp_path, name):
    problem = problems.load(name)
    found = checked(library(bundled(problem, problem.existing, compiler)), tmp_path / "exported")
    assert all(row["right"] for row in found["shapes"])
    assert len(found["shapes"]) == len(problem.with_role(WorkloadRole.BENCHMARK))


def built(source, folder, name, **more):
    """Build a .cu with torch's loader, here and now."""
    from torch.utils import cpp_extension

    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.cu"
    path.write_text(source)
    include = [str(toolchain.find_include_dirs()[0])]
    flags = ["-O2", "-std=c++17", "--expt-relaxed-constexpr", f"-gencode=arch=compute_{arch()[3:]},code={arch()}"]
    os.environ["CUDA_HOME"] = str(nvcc.find().parent.parent)
    return cpp_extension.load(
        name, [str(path)], extra_include_paths=include, extra_cuda_cflags=flags, build_directory=str(folder), **more
    )


BINDING = """
#include <torch/extension.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &FUNCTION); }
"""


def test_a_drop_in_computes_what_the_original_did(facts_of, tmp_path):
    facts = facts_of("rmsnorm_macro.cu")
    module = built(
        dropin.dropin_file(facts) + BINDING.replace("FUNCTION", "rms_norm"), tmp_path / "dropin", "rms_norm_dropin"
    )
    x, weight = torch.randn(37, 700, device="cuda"), torch.randn(700, device="cuda")
    want = torch.nn.functional.rms_norm(x, (700,), weight, 1e-3)
    torch.testing.assert_close(module.run(x, weight, 1e-3), want, atol=1e-5, rtol=1e-4)


def test_a_drop_in_in_place_writes_over_its_arguments(facts_of, tmp_path):
    facts = facts_of("add_norm_inplace.cu")
    text = dropin.dropin_file(facts) + BINDING.replace("FUNCTION", "fused_add_rms_norm")
    module = built(text, tmp_path / "in_place", "fused_add_rms_norm_dropin")
    x, residual, weight = (torch.randn(*shape, device="cuda") for shape in ((31, 512), (31, 512), (512,)))
    total = x + residual
    want = torch.nn.functional.rms_norm(total, (512,), weight, 1e-6)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        module.run(x, residual, weight, 1e-6)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(residual, total)
    torch.testing.assert_close(x, want, atol=1e-5, rtol=1e-4)


def test_the_patched_original_builds_and_computes_the_same(facts_of, tmp_path):
    facts = facts_of("softmax_extension.cu")
    module = built(patched(facts, facts.host, facts.original), tmp_path / "patched", "softmax_patched")
    x = torch.randn(63, 1000, device="cuda")
    torch.testing.assert_close(module.forward(x), torch.softmax(x, 1), atol=1e-6, rtol=1e-4)


def test_the_operator_works_under_torch_compile(facts_of, tmp_path):
    facts = facts_of("silu_dispatch.cu")
    files = library(replace(facts.bundle, original=tuple(facts.original)))
    os.environ.update(environment())
    context = {"__name__": "exported"}
    exec(compile(files["silu_and_mul_op.py"], "silu_and_mul_op.py", "exec"), context)
    x = torch.randn(8, 1024, device="cuda", dtype=torch.float16)
    gate, up = x.chunk(2, -1)
    compiled = torch.compile(lambda x: context["silu_and_mul"](x) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.nn.functional.silu(gate) * up + 1, atol=2e-3, rtol=2e-3)
    torch.library.opcheck(context["silu_and_mul"], (x,))
