"""A kernel's code stands beside any other: its names and macros are its own, and what is built is named by its text."""

import re
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.kernel import kernel_file
from cutegen_core.machine import toolchain
from cutegen_core.problems import library as problems
from cutegen_core.records.errors import UsageError
from cutegen_core.records.trial import KernelResources
from cutegen_core.share.exports import bundle as bundles
from cutegen_core.share.exports import nvcc
from cutegen_core.share.exports.cu import cu_file
from cutegen_core.share.exports.extension import project
from cutegen_core.share.exports.flashinfer import solution
from cutegen_core.share.exports.library.dropin import dropin_file
from cutegen_core.share.exports.library.facts import Original, collect
from cutegen_core.share.exports.library.operator import operator_module
from cutegen_core.share.exports.library.patch import patched
from cutegen_core.share.exports.modelnew import cuda_source, modelnew_file
from cutegen_core.share.exports.own_names import OVERLOADED, between_macros, enclose
from cutegen_core.share.exports.torch_binding import own_scope
from cutegen_core.share.imports.plain_cu import import_kernel
from cutegen_core.share.imports.plain_cu.source import split_file
from tests.later import Later
from tests.places import DATA
from tests.share.hostile_original import KERNEL, ORIGINAL
from tests.share.plain_problems import PROBLEMS

torch = Later("torch")

NORM = KernelResources(
    "norm_rows<WIDTH, Chosen, (Mode)1>", "void norm_rows<4>(float const*, float*, long)", 8, 0, 0, 0, 0
)
needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc here")


@pytest.fixture(scope="module")
def hostile(shared):
    """The facts of an export whose kernel and original have their names in common."""
    problem = problems.load("relu")
    signatures = {w.name: shared.reference(problem).signature(w) for w in problem.workloads}
    existing = import_kernel(ORIGINAL, "norm.cu", problem, signatures, "relu").text
    made = bundles.build(
        replace(problem, existing=existing), KERNEL, "sm_90a", "c" * 64, "a test",
        kernels=(NORM,), signatures=signatures,
    )  # fmt: skip
    return collect(made, Original("norm.cu", ORIGINAL))


# -- names and macros --------------------------------------------------------------------------------------------------


def test_everything_new_in_a_patched_file_lies_in_a_namespace_of_its_own(hostile):
    text, scope = patched(hostile, hostile.host, hostile.original), own_scope(hostile.bundle)
    new = text[: text.index("#define T double")]
    source = split_file("norm.cu", new)
    assert {f.scope.split("::")[0] for f in (source.kernels | source.hosts).values()} == {scope}
    assert "relu_launch" in source.hosts
    outside = re.sub(rf"namespace {scope} \{{.*?\n\}}  // namespace {scope}\n", "", new, flags=re.DOTALL)
    left = [
        line for line in outside.splitlines() if line and not re.match(r"//|/\*|#(?:include|undef|ifndef|define)", line)
    ]
    pushed = [line for line in left if line.startswith("#pragma push_macro")]
    popped = [line for line in left if line.startswith("#pragma pop_macro")]
    assert [line.replace("push", "pop") for line in pushed] == popped
    assert {re.findall(r'"(\w+)"', line)[0] for line in pushed} == {"T", "WIDTH", "view", "cols"}
    rest = [line for line in left if line not in (*pushed, *popped)]
    assert rest == [
        f"namespace cute {{ using namespace ::{scope};",
        "struct AddedToCute { using Value = Accumulator; };",
        "}",
    ]


def test_what_others_of_the_file_use_stays_and_what_only_the_kernel_used_goes(hostile):
    text = patched(hostile, hostile.host, hostile.original)
    old = text[text.index("#define T double") :]
    assert "relu_rows" not in old
    for kept in ("norm_rows<<<1, BLOCK", "reduce(double", "in_a_table(float", "in_a_macro(float", "relu_launch(int"):
        assert kept in old
    assert text.index("#define ENGINE_NORM_CU") < text.index("#include <cute/tensor.hpp>"), "the guard holds it too"


def test_an_original_whose_function_changed_is_refused(hostile):
    other = Original("norm.cu", ORIGINAL.replace("void relu(const float* x", "void relu(const float* y"))
    with pytest.raises(UsageError, match=r"relu is declared as `void relu\(const float\* y.*import the file again"):
        patched(hostile, hostile.host, other)


def test_macros_end_with_the_text_that_defines_them():
    text = between_macros("#define T float\n// #define U 1\n#  undef V\n")
    assert text.startswith('#pragma push_macro("T")\n#undef T\n#pragma push_macro("V")\n#undef V\n')
    assert text.endswith('#pragma pop_macro("T")\n#pragma pop_macro("V")\n')
    assert "restrict" not in between_macros("int x;")


def test_only_what_the_body_declares_is_asked_of_its_namespace():
    body = (
        "#include <cfloat>\nusing wide = float4;\ntemplate <class T = int> struct Box { T one; };\nint first, second;\n"
        "__device__ float4 load(float4 v) { ::Box<int> b; ::first; return ::load(::float4(::max(a::second, v))); }\n"
    )
    includes, inside = enclose(body, "mine")
    assert includes == "#include <cfloat>\n"
    assert "{ ::mine::Box<int> b; ::mine::first; return ::mine::load(::float4(::max(a::second, v))); }" in inside
    assert "using ::" not in inside
    assert enclose("__device__ float max(float3 v) { return max(v.x, v.y); }", "mine").body.startswith("using ::max;\n")


# -- what is built -----------------------------------------------------------------------------------------------------


def loaded(text):
    context = {"__name__": "an_export_of_a_test"}
    exec(compile(text, "<export>", "exec"), context)
    return context


@pytest.mark.parametrize("export", ["modelnew", "operator"])
def test_the_name_of_what_torch_builds_follows_from_all_that_is_built(hostile, export):
    def made(bundle):
        return (
            modelnew_file(bundle) if export == "modelnew" else operator_module(replace(hostile, bundle=bundle), "built")
        )

    bundle = hostile.bundle
    other = replace(bundle, kernel=kernel_file.parse(KERNEL.replace("0.0f)", "0.5f)")))
    one, again = loaded(made(bundle)), loaded(made(replace(bundle, origin="another session")))
    vars(torch.ops.cutegen)["cutegen_loaded"] = {}  # as in a process of its own
    two = loaded(made(other))
    name = [context["cutegen_build_of"]("90a", "/cutlass/include")["name"] for context in (one, again, two)]
    assert name[0] == name[1] != name[2]
    assert one["cutegen_build_of"]("80", "/cutlass/include")["name"] != name[0]
    assert one["cutegen_build_of"]("90a", "/other")["name"] != name[0]
    one["CUTEGEN_CPP_SOURCE"] += "\n"
    assert one["cutegen_build_of"]("90a", "/cutlass/include")["name"] != name[0]
    assert re.fullmatch(r"\w+", name[0])


def test_a_second_kernel_under_the_name_of_an_operator_is_refused(hostile):
    text = operator_module(hostile, "taken")
    loaded(text)
    loaded(text)
    other = replace(hostile.bundle, kernel=kernel_file.parse(KERNEL.replace("0.0f)", "0.5f)")))
    with pytest.raises(RuntimeError, match="cutegen::taken is another kernel's in this process"):
        loaded(operator_module(replace(hostile, bundle=other), "taken"))


def test_projects_solutions_and_drop_ins_of_two_kernels_differ_in_name(hostile):
    made = hostile.bundle
    other = replace(made, kernel=kernel_file.parse(KERNEL.replace("0.0f)", "0.5f)")))
    for name in (
        lambda b: re.search(r'^version = "0\.1\.0\+(\w+)"', project(b)["pyproject.toml"], re.MULTILINE)[1],
        lambda b: re.search(r'"name": "(\w+)"', solution(b))[1],
        own_scope,
    ):
        assert name(made) == name(made) != name(other)


# -- with nvcc ---------------------------------------------------------------------------------------------------------

CONTEXT = """
#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
"""


def compiles(text, folder):
    """Compile with torch's headers; those of a wheel for the CPU include CUDA libraries that need not be here."""
    stubs = {
        "c10/cuda/impl/cuda_cmake_macros.h": "",
        "ATen/cuda/CUDAContext.h": CONTEXT,
        "tuning.h": "inline int tuned_threads(char const*, long) { return 256; }",
    }
    for path, stub in stubs.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(stub)
    (folder / "it.cu").write_text(text)
    headers = Path(torch.__file__).parent / "include"
    include = [folder, toolchain.find_include_dirs()[0], headers, headers / "torch/csrc/api/include",
               sysconfig.get_paths()["include"]]  # fmt: skip
    off = [f"-D__CUDA_NO_{name}__" for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS")]
    done = subprocess.run(
        [str(nvcc.find()), "-std=c++17", "-w", "-arch=sm_90a", "--expt-relaxed-constexpr", "-DTORCH_EXTENSION_NAME=it",
         *off, *(f"-I{each}" for each in include), "-c", "it.cu", "-o", "it.o"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@needs_nvcc
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("file", [file for file in PROBLEMS if file != "relu_main.cu"])
def test_every_patched_original_compiles(shared, file, tmp_path):
    """`relu_main.cu` has a main, which is no function that a kernel could stand behind."""
    problem, text = PROBLEMS[file](), (DATA / "plain" / file).read_text()
    signatures = {w.name: shared.reference(problem).signature(w) for w in problem.workloads}
    kernel = import_kernel(text, file, problem, signatures).text.replace("HOLE_1", "256")
    compiled = shared.compiler().compile(kernel_file.parse(kernel)).kernels
    facts = collect(
        bundles.build(
            replace(problem, existing=kernel), kernel, "sm_90a", "c" * 64, "a test",
            kernels=compiled, signatures=signatures,
        ),
        Original(file, text),
    )  # fmt: skip
    compiles(patched(facts, facts.host, facts.original), tmp_path)


@needs_nvcc
@pytest.mark.slow
@pytest.mark.thorough
def test_names_in_common_compile_in_every_export(hostile, tmp_path):
    assert shared_names() >= {"table", "own", "norm_rows"}
    for text in (
        patched(hostile, hostile.host, hostile.original),
        dropin_file(hostile),
        cu_file(hostile.bundle),
        cuda_source(hostile.bundle),
    ):
        compiles(text, tmp_path)


def shared_names():
    return set(re.findall(r"\w+", KERNEL)) & set(re.findall(r"\w+", ORIGINAL))


@needs_nvcc
@pytest.mark.slow
@pytest.mark.thorough
def test_every_function_that_kernels_overload_is_there(tmp_path):
    using = "".join(f"using ::{name};\n" for name in sorted(OVERLOADED))
    compiles(f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cmath>\nnamespace a {{\n{using}}}\n", tmp_path)
