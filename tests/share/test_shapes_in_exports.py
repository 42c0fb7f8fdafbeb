"""An export is right at every benchmark workload, and speaks of each."""

import re
from dataclasses import replace

import pytest

from cutegen_core.problems import library
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Workload, WorkloadRole
from cutegen_core.records.trial import KernelResources
from cutegen_core.share.exports import bundle
from cutegen_core.share.exports.cu import cu_file
from cutegen_core.share.exports.extension import project
from cutegen_core.share.exports.flashinfer import solution
from cutegen_core.share.exports.host_cpp import LAUNCH
from cutegen_core.share.exports.modelnew import modelnew_file
from tests.places import DATA
from tests.share.host_side import check_compiles, launch_nothing

SIGNATURES = {
    "sum_squares<BLOCK>": "void sum_squares<128>(float const*, float*, int)",
    "scale<BLOCK, false>": "void scale<128, false>(float const*, float const*, float const*, float*, int, float)",
    "scale<BLOCK, true>": "void scale<128, true>(float const*, float const*, float const*, float*, int, float)",
}
STUB = """
#define __global__
struct Place { unsigned x = 0, y = 0, z = 0; };
static Place const blockIdx, threadIdx;
static dim3 const blockDim, gridDim;
namespace cutegen {
struct Config { dim3 grid, block, cluster; std::size_t smem_bytes; bool cooperative; };
template <class... A> cudaError_t launch(void*, Config const&, cudaStream_t, A...) { return cudaSuccess; }
}
"""


@pytest.fixture(scope="module")
def rmsnorm(shared):
    """Return a function that makes the bundle of a kernel with these sizes as benchmark workloads."""
    text = (DATA / "rmsnorm_two_pass.cu").read_text()
    resources = tuple(KernelResources(name, types, 32, 0, 0, 0, 0) for name, types in SIGNATURES.items())

    def made(**shapes):
        timed = [Workload(name, WorkloadRole.BENCHMARK, sizes) for name, sizes in shapes.items()]
        known = library.load("rmsnorm")
        problem = replace(known, workloads=(*known.with_role(WorkloadRole.EMULATOR), *timed))
        reference = shared.reference(problem)
        signatures = {w.name: reference.signature(w) for w in problem.workloads}
        return bundle.build(problem, text, "sm_90a", "c" * 64, "a test", kernels=resources, signatures=signatures)

    return made


@pytest.fixture(scope="module")
def alike(rmsnorm):
    return rmsnorm(short={"batch_size": 64, "dim": 128}, long={"batch_size": 8, "dim": 4096})


@pytest.fixture(scope="module")
def different(rmsnorm):
    return rmsnorm(exact={"batch_size": 64, "dim": 128, "eps": 1e-6}, rough={"batch_size": 64, "dim": 128, "eps": 1e-3})


def test_the_standalone_file_runs_every_shape(alike):
    text = cu_file(alike)
    assert 'measure("short", rmsnorm_workspace_bytes(' in text
    assert 'measure("long", rmsnorm_workspace_bytes(' in text
    assert "// float32 [64, 128]" in text
    assert "// float32 [8, 4096]" in text
    assert re.findall(r"^  cutegen_example::(run_\d)\(\);$", text, re.MULTILINE) == ["run_0", "run_1"]


def test_numbers_that_differ_are_parameters_of_the_standalone_file(alike, different):
    assert "constexpr double eps = 1e-06;" in cu_file(alike)
    text = cu_file(different)
    assert "constexpr double eps" not in text
    assert "out, 1e-06, workspace, stream)" in text
    assert "out, 0.001, workspace, stream)" in text


def test_numbers_that_differ_are_no_constants_of_the_other_formats(alike, different):
    for export in (project, solution):
        assert export(alike)
        with pytest.raises(UsageError, match="holds eps as constants, but the benchmark workloads differ"):
            export(different)
    assert "CUTEGEN_NUMBERS" in modelnew_file(different), "it reads them at run time"


def test_contracts_that_differ_are_refused(alike):
    half = replace(alike.signature, outputs=tuple(replace(t, dtype="float16") for t in alike.signature.outputs))
    with pytest.raises(UsageError, match="differ in the names or dtypes"):
        bundle.build(
            alike.problem, (DATA / "rmsnorm_two_pass.cu").read_text(), "sm_90a", "c" * 64, "a test",
            kernels=(), signatures={"short": alike.signature, "long": half},
        )  # fmt: skip


@pytest.mark.parametrize("shapes", [pytest.param("alike", marks=pytest.mark.thorough), "different"])
def test_the_host_side_of_the_standalone_file_compiles(shapes, request, tmp_path):
    made = request.getfixturevalue(shapes)
    kernel = made.kernel.body.strip("\n")
    host = cu_file(made).replace(kernel, "").replace("#include <cute/tensor.hpp>", "")
    host = host.replace(LAUNCH, STUB).replace("<<<1024, 256>>>", "")
    check_compiles(f"#include <cuda_runtime.h>\n{launch_nothing(host)}", tmp_path)
