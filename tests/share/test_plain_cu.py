"""A plain `.cu` becomes a kernel file: its launches are read, its arguments matched, its host code is gone."""

import json
import re
from dataclasses import replace

import pytest

from cutegen_core import cli
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import choose_device
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.share.imports.plain_cu import import_kernel
from tests.places import DATA
from tests.share.plain_problems import PROBLEMS

INCOMPLETE = "relu_config.cu"
RUN_ALWAYS = "add_norm_inplace.cu"
COMPLETE = [
    pytest.param(file, marks=() if file == RUN_ALWAYS else pytest.mark.thorough)
    for file in PROBLEMS
    if file != INCOMPLETE
]


def text_of(file):
    return (DATA / "plain" / file).read_text()


@pytest.fixture(scope="module")
def imported(shared):
    """Import a file for its problem, once."""
    made = {}

    def take(file):
        if file not in made:
            problem = PROBLEMS[file]()
            reference = shared.reference(problem)
            signatures = {w.name: reference.signature(w) for w in problem.workloads}
            made[file] = problem, reference, import_kernel(text_of(file), file, problem, signatures)
        return made[file]

    return take


@pytest.mark.parametrize("file", PROBLEMS)
def test_every_style_becomes_a_kernel_file_without_host_code(imported, file):
    _, _, made = imported(file)
    kernel = parse(made.text)
    assert screen(kernel) == ()
    assert made.is_complete == (file != INCOMPLETE)
    assert "torch" not in kernel.body.replace("// cutegen-host", "").split("\n", 2)[2].lower() or "// " in kernel.body


@pytest.mark.parametrize("file", COMPLETE)
def test_what_was_read_completely_passes_as_it_is(imported, shared, file):
    problem, reference, made = imported(file)
    device = choose_device("sm_90a")
    evaluator = Evaluator(problem, reference, shared.executor, shared.compiler(), device, keep=lambda _: "kept")
    found = evaluator.evaluate(Candidate(made.text, Author.IMPORT), seed=1, thorough=True)
    assert found.passed, (found.message, found.log[-2000:])


def launches(made):
    return [
        (launch.kernel, *([e.expression.text for e in getattr(launch, key)] for key in ("grid", "block", "args")))
        for launch in parse(made.text).launches
    ]


def test_launches_are_read_with_the_problems_names(imported):
    _, _, made = imported("silu_dispatch.cu")
    assert launches(made) == [
        ("engine::act_and_mul_kernel<__half>", ["x.numel // x.shape[-1]"], ["min(x.shape[-1] // 2, 1024)"],
         ["out", "x", "x.shape[-1] // 2"])
    ]  # fmt: skip
    _, _, made = imported("rmsnorm_macro.cu")
    assert [launch.when.expression.text for launch in parse(made.text).launches] == [
        "x.shape[-1] <= 512", "not (x.shape[-1] <= 512)"
    ]  # fmt: skip
    _, _, made = imported("softmax_chain.cu")
    assert [(s.name, s.dtype) for s in parse(made.text).scratch] == [("most", "float32"), ("total", "float32")]


def test_a_kernel_that_works_in_place_gets_copies_first_and_says_so(imported):
    _, _, made = imported("add_norm_inplace.cu")
    copies = [launch for launch in launches(made) if launch[0].startswith("cutegen_copy")]
    assert [args for *_, args in copies] == [["x", "out0", "out0.numel"], ["residual", "out1", "out1.numel"]]
    assert "input is written in place: out0 begins as a copy of x" in made.notes


def test_what_cannot_be_read_is_a_hole_with_the_original_beside_it(imported):
    problem, reference, made = imported(INCOMPLETE)
    (hole,) = made.holes
    assert (hole.name, hole.text, hole.line) == ("HOLE_1", 'tuned_threads("relu", n)', 11)
    assert '# HOLE_1: tuned_threads("relu", n) (line 11)' in made.text
    kernel = parse(made.text)
    with pytest.raises(KernelFileError, match="unknown name 'HOLE_1'"):
        kernel.plan(reference.signature(problem.workloads[0]), choose_device("sm_90a"))
    filled = kernel.with_launch(0, "grid", '["ceil_div(out.numel, 256)"]')
    filled = parse(filled).with_launch(0, "block", '["256"]')
    assert parse(filled).plan(reference.signature(problem.workloads[0]), choose_device("sm_90a")).launches


SIGNATURES = {
    "benchmark": Signature(
        (TensorSpec("x", "float32", (4, 8)),), (TensorSpec("out", "float32", (4, 8), TensorRole.OUTPUT),)
    )
}


def simple(body, host):
    return f"__global__ void k(const float* a, float* b, int n) {{ {body} }}\n{host}"


def read_one(text, **more):
    return import_kernel(text, "mine.cu", library.load("relu"), SIGNATURES, **more)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int main() {}", r"mine\.cu: has no __global__ function"),
        ("/* cutegen\n*/", r"mine\.cu:1: this is a kernel file with a launch plan already"),
        (
            simple("", "void f(const float* a, float* b, int n) { k<<<1, 2>>>(a, b, n); }\n"
                       "void g(const float* a, float* b, int n) { k<<<1, 2>>>(a, b, n); }"),
            r"mine\.cu: several host functions launch kernels: f \(line 2\), g \(line 3\)",
        ),
        ("\x00", r"mine\.cu:1: there is a NUL byte"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused_by_file_and_line(text, words):
    with pytest.raises(UsageError, match=words):
        read_one(text)


def test_the_host_function_can_be_named():
    two = simple("", "void f(const float* a, float* b, int n) { k<<<1, 32>>>(a, b, n); }\n"
                     "void g(const float* a, float* b, int n) { k<<<2, 64>>>(a, b, n); }")  # fmt: skip
    assert [launch[2] for launch in launches(read_one(two, function="g"))] == [["64"]]
    with pytest.raises(UsageError, match=r"no host function 'h' \(functions: f, g\)"):
        read_one(two, function="h")


def test_device_code_alone_gets_one_launch_a_kernel_with_holes():
    made = read_one(simple("b[0] = a[0];", ""))
    assert [hole.place for hole in made.holes] == ["grid", "block"]
    assert launches(made)[0][3] == ["x", "out", "out.numel"]


@pytest.mark.parametrize(
    ("host", "grid"),
    [
        ("int g = n / 4; if (n > 100) g = 7; k<<<g, 32>>>(a, b, n);", None),
        ("auto up = [](int p, int q) { return (p + q - 1) / q; }; k<<<up(n, 32), 32>>>(a, b, n);",
         "(out.numel + 32 - 1) // 32"),
        ("for (int i = 0; i < 3; ++i) k<<<1, 32>>>(a, b, n);", "1"),
        ("k<<<(n >> 5) << 2, 32>>>(a, b, n);", "out.numel // 32 * 4"),
        ("k<<<n > 8 ? 2 : 1, 32>>>(a, b, n);", "2 * (out.numel > 8) + 1 * (1 - (out.numel > 8))"),
    ],
)  # fmt: skip
def test_host_arithmetic_keeps_its_meaning(host, grid):
    made = read_one(simple("b[0] = a[0];", f"void f(const float* a, float* b, int n) {{ {host} }}"))
    (launch,) = launches(made)
    assert grid is None or launch[1] == [grid]
    if grid is None:
        assert launch[1] == ["7 * (out.numel > 100) + out.numel // 4 * (1 - (out.numel > 100))"]
    assert made.is_complete == ("for" not in host)


ODD = """
#ifdef USE_ROCM
#include <hip/hip_runtime.h>
__global__ void k(const float* a, float* b, int n, int rocm) { }
#else
#include <cuda_runtime.h>
#endif
/* __global__ void old(float* p) { } */
static const char* kNote = "{ __global__ <<< \\" ( ";
static const char* kRaw = R"({{{ k<<<1, 1>>>(); )";
namespace a { namespace b {
struct Pair { float x, y; };
template <typename T, int N = 4>
__device__ T twice(T v) { return v + v; }
__global__ __launch_bounds__(128) void k(const float* __restrict__ a, float* b, int n) { b[0] = twice(a[0]); }
#if 0
__global__ void k(const float* a, float* b, int n, int never) { }
#endif
} }
#define GRID(n) (((n) + 127) / 128)
#if CUDART_VERSION >= 11000 && !defined(SLOW)
#define BLOCK 128
#else
#define BLOCK 64
#endif
template <typename F> void timed(F f) { f(); }
void run(const float* a, float* b, int n, cudaStream_t s) {
  if (n <= 0) { return; }
  timed([&] { a::b::k<<<GRID(n), BLOCK, 0, s>>>(a, b, n); });
}
"""


def test_namespaces_comments_strings_and_branches_are_read_as_a_compiler_reads_them():
    made = read_one(ODD)
    assert launches(made) == [("a::b::k", ["(out.numel + 127) // 128"], ["128"], ["x", "out", "out.numel"])]
    kernel = parse(made.text)
    assert screen(kernel) == ()
    assert kernel.body.count("__global__") == 2  # one of them in a comment
    assert not {"hip_runtime", "kNote", "kRaw", "timed", "rocm", "never"} & set(re.findall(r"\w+", kernel.body))
    assert "struct Pair" in kernel.body


def test_the_command_writes_the_file_and_says_what_is_left(tmp_path, capsys):
    target = tmp_path / "relu.cu"
    plain = str(DATA / "plain" / INCOMPLETE)
    assert cli.main(["import-kernel", plain, "--problem", "relu", "-o", str(target), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["function"], said["complete"], said["holes"][0]["line"]) == ("relu", False, 11)
    assert parse(target.read_text()).launches[0].kernel == "relu_kernel"
    assert cli.main(["import-kernel", plain, "--problem", "relu"]) == 1
    assert "relu_config.cu:11: HOLE_1 must be completed by hand" in capsys.readouterr().err


def test_a_size_of_the_problem_is_known_by_its_name(imported):
    _, _, made = imported("softmax_chain.cu")
    renamed = text_of("softmax_chain.cu").replace("cols", "dim").replace("rows", "batch_size")
    problem, reference, _ = imported("softmax_chain.cu")
    signatures = {w.name: reference.signature(w) for w in problem.workloads}
    again = import_kernel(renamed, "renamed.cu", replace(problem), signatures)
    assert again.is_complete
    assert "dim is x.shape[1]: a size of the problem" in again.notes
    assert made.is_complete
