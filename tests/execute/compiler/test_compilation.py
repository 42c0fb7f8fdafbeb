"""The compile stage with the real compiler: verdicts, lines, resources, limits, what a candidate may not reach."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cutegen_core.execute.compiler import compile_server
from cutegen_core.execute.compiler.collisions import collisions
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.disassembly import disassemble
from cutegen_core.execute.compiler.forks import CompileLimits
from cutegen_core.execute.compiler.nvrtc import Nvrtc, NvrtcProgram
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Status
from tests.crowd import crowded
from tests.patience import wait_until
from tests.places import ROOT

RELU = """/* cutegen
[params]
BLOCK = 256
ITEMS = 4
[[launch]]
kernel = "relu<BLOCK, ITEMS>"
grid = ["ceil_div(x.numel, BLOCK * ITEMS)"]
block = ["BLOCK"]
args = ["x", "out", "x.numel"]
*/
#include <cute/tensor.hpp>
using namespace cute;
template <int B, int I>
__global__ __launch_bounds__(B) void relu(float const* x, float* out, long n) {
  auto in = make_tensor(make_gmem_ptr(x), make_layout(n));
  long base = long(blockIdx.x) * B * I + threadIdx.x;
  for (int i = 0; i < I; i++) {
    if (base + i * B < n) out[base + i * B] = in(base + i * B) > 0 ? in(base + i * B) : 0.0f;
  }
}
"""
TEMPLATE_BOMB = """
template <int N, class... T> struct Bomb { using type = typename Bomb<N - 1, T..., Bomb<N - 1, T...>>::type; };
using boom = Bomb<1000>::type;
"""
MEMORY_BOMB = "__device__ char bomb[1u << 31] = {1};"


@pytest.fixture
def compiler(shared):
    """Return the shared one: what it made in an earlier run of the same compiler is kept."""
    return shared.compiler()


@pytest.fixture
def anew(compiler, tmp_path, monkeypatch):
    """Return the same server, which compiles whatever it is given."""
    monkeypatch.setattr(compiler, "_cache", tmp_path / "compiled")
    (tmp_path / "compiled").mkdir()
    return compiler


@pytest.fixture
def own(tmp_path):
    """Yield a compiler whose server no other test uses."""
    compiler = Compiler("sm_90a", cache=tmp_path)
    yield compiler
    compiler.close()


def with_line(line: str, text: str = RELU) -> str:
    """Return the kernel with another line before its template, which is line 13."""
    return text.replace("template <int B", f"{line}\ntemplate <int B")


def body_with(statement: str) -> str:
    return RELU.replace("  long base", f"  {statement}\n  long base")


def failure(compiler, text):
    result = compiler.compile(parse(text))
    assert result.status is Status.COMPILE_ERROR
    assert not result.cubin
    first = result.diagnostics[0]
    assert first.severity == "error"
    return first, result


@pytest.mark.thorough
def test_the_first_answer_does_not_wait_for_the_precompiled_prelude(own, tmp_path):
    """With and without it, the code is the same."""
    first = own.compile(parse(RELU))
    made = Path(os.environ["CUTEGEN_HOME"]) / "cache" / "prelude" / str(own._servers.first._process.pid) / "prelude.pch"
    assert not made.exists()
    wait_until(made.exists, "the prelude was not precompiled")
    (entry,) = tmp_path.iterdir()
    entry.unlink()
    again = own.compile(parse(RELU))
    assert not again.cached
    assert (again.sass, again.kernels, again.lowered) == (first.sass, first.kernels, first.lowered)


@pytest.mark.thorough
def test_what_tuples_store_is_no_variable_of_the_cubin(compiler):
    """Thousands of such variables were, each of which the driver linked whenever it loaded the module."""
    result = compiler.compile(parse(RELU))
    assert b"is_first_empty_v" not in result.cubin
    assert b"is_rest_empty_v" not in result.cubin


def test_a_good_kernel_brings_its_resources(compiler):
    result = compiler.compile(parse(RELU))
    assert (result.status, result.message) == (Status.PASSED, "")
    assert result.cubin.startswith(b"\x7fELF")
    (kernel,) = result.kernels
    assert kernel.kernel == "relu<BLOCK, ITEMS>"
    assert kernel.signature == "void relu<256, 4>(float const*, float*, long)"
    assert 8 <= kernel.registers <= 64
    assert (kernel.spill_store_bytes, kernel.stack_bytes, kernel.smem_static_bytes) == (0, 0, 0)
    assert kernel.instruction_mix["global load 32-bit"] == kernel.instruction_mix["global store 32-bit"] == 4
    assert 'File "candidate.cu", line 18' in result.sass
    assert "EXIT" in result.sass
    assert str(ROOT) not in result.sass + result.log
    assert result.lowered["relu<BLOCK, ITEMS>"] in result.sass


def test_parameters_change_the_kernel_and_a_repeat_comes_from_the_cache(compiler):
    kernel = parse(RELU)
    compiler.compile(kernel, {"ITEMS": 2})
    again = compiler.compile(kernel, {"ITEMS": 2})
    assert again.cached
    assert again.kernels[0].signature.startswith("void relu<256, 2>")
    assert again.kernels[0].instruction_mix["global load 32-bit"] == 2


def test_failures_are_cached_too_and_a_broken_entry_is_made_again(anew, tmp_path):
    kernel = parse(with_line("int x = ;"))
    assert not anew.compile(kernel).cached
    assert anew.compile(kernel).cached
    (entry,) = (tmp_path / "compiled").iterdir()
    entry.write_bytes(entry.read_bytes()[:-20])
    repaired = anew.compile(kernel)
    assert (repaired.cached, repaired.status) == (False, Status.COMPILE_ERROR)


def test_a_syntax_error_is_at_its_line(compiler):
    first, result = failure(compiler, RELU.replace("long base", "lng base"))
    assert (first.line, first.message) == (16, 'identifier "lng" is undefined')
    assert result.message == 'line 16: identifier "lng" is undefined'


def test_an_unknown_type_of_a_parameter_is_at_its_line(compiler):
    first, result = failure(compiler, RELU.replace("float const* x", "flot const* x"))
    assert (first.line, first.message) == (14, 'identifier "flot" is undefined')
    assert result.message == 'line 14: identifier "flot" is undefined'


def test_a_template_error_is_moved_to_the_line_that_caused_it(compiler):
    first, _ = failure(compiler, RELU.replace("make_layout(n)", "make_layout(n, make_shape(1, 2))"))
    assert first.line == 18
    assert first.message.startswith('no operator "*" matches these operands (cute/stride.hpp:')
    assert any("operand types are" in note for note in first.notes)
    assert any(note.startswith("in instantiation of") and "(candidate.cu:18)" in note for note in first.notes)


def test_a_static_assertion_is_spelled_out(compiler):
    first, _ = failure(compiler, RELU.replace("make_layout(n)", "make_layout(x)"))
    assert first.line == 15
    assert "static assertion failed: is_tuple<Shape >::value || is_integral<Shape >::value" in first.message
    own, _ = failure(compiler, body_with('static_assert(size(Layout<_3>{}) == Int<4>{}, "four wanted");'))
    assert (own.line, own.message) == (16, 'static assertion failed with "four wanted"')


def test_an_unknown_kernel_names_those_that_exist(compiler):
    first, _ = failure(compiler, RELU.replace('"relu<BLOCK, ITEMS>"', '"rellu<BLOCK, ITEMS>"') + "// rellu\n")
    assert (first.line, first.message) == (5, "unknown kernel rellu<BLOCK, ITEMS>: the file defines relu")
    first, _ = failure(compiler, RELU.replace('"relu<BLOCK, ITEMS>"', '"relu<BLOCK>"'))
    assert first.message.startswith("kernel relu<BLOCK> cannot be made from what the file defines (relu)")


@pytest.mark.parametrize("named", ["gemm", "::gemm"])
def test_a_kernel_may_have_the_name_of_a_function_of_cute(compiler, named):
    text = RELU.replace("template <int B, int I>\n", "constexpr int B = BLOCK, I = ITEMS;\n")
    text = text.replace("void relu(", "void gemm(").replace("relu<BLOCK, ITEMS>", named)
    result = compiler.compile(parse(text))
    assert result.status is Status.PASSED, result.diagnostics


def test_extern_c_and_device_functions_are_refused(compiler):
    first, _ = failure(
        compiler,
        with_line('extern "C" __global__ void plain(float* x) {}').replace('"relu<BLOCK, ITEMS>"', '"plain"'),
    )
    assert first.message == 'kernel plain is declared extern "C", which hides its parameter types: remove extern "C"'
    first, _ = failure(
        compiler, with_line("__device__ void helper(float* x) {}").replace('"relu<BLOCK, ITEMS>"', '"helper"')
    )
    assert "non-__global__ function" in first.message


def test_what_ptxas_refuses_points_to_the_kernel_or_the_line(compiler):
    shared = "__shared__ float big[600000]; big[threadIdx.x] = n; __syncthreads(); out[1] = big[n];"
    first, _ = failure(compiler, body_with(shared))
    assert (first.line, first.tool) == (14, "ptxas")
    assert "uses too much shared data (2400000 bytes, 232448 max)" in first.message
    first, _ = failure(compiler, body_with('asm volatile("nonsense %0;" ::"r"(1));'))
    assert (first.line, first.tool) == (16, "ptxas")


def test_spills_stack_and_static_shared_memory_are_reported(compiler):
    text = body_with(
        "__shared__ float s[64]; s[threadIdx.x % 64] = n; __syncthreads(); float r[300];\n"
        "  for (int i = 0; i < 300; i++) r[i] = x[i * n];\n"
        "  for (int k = 0; k < n; k++) for (int i = 0; i < 300; i++) r[i] = r[i] * r[(i + 1) % 300];\n"
        "  for (int i = 0; i < 300; i++) out[i] = r[i] + s[i % 64];"
    ).replace("__launch_bounds__(B)", "__launch_bounds__(1024, 2)")
    (kernel,) = compiler.compile(parse(text)).kernels
    assert kernel.registers == 32
    assert min(kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.stack_bytes) > 500
    assert kernel.smem_static_bytes == 256
    assert kernel.instruction_mix["local memory (spill)"] > 100


def test_c_and_cpp_names_that_nvrtc_lacks_are_there(compiler):
    headers = "cstdint cfloat climits cmath math.h limits type_traits utility tuple array cuda_fp16.h cuda_bf16.h"
    includes = "".join(f"#include <{header}>\n" for header in headers.split())
    use = (
        "float v = std::max(std::exp(x[0]), -INFINITY) + NAN + FLT_MAX + float(M_PI);\n"
        "  v += std::numeric_limits<float>::max(); uint32_t a = UINT32_MAX; uint b = INT_MAX;\n"
        "  out[0] = v + a + b + __half2float(__float2half(v));"
    )
    result = compiler.compile(parse(with_line(includes, body_with(use))))
    assert result.status is Status.PASSED, result.log


@pytest.mark.thorough
def test_elements_of_cutes_tuples_are_libcudacxx_s(compiler):
    """The prelude itself answers for the first four elements."""
    types = "char, short, int, long, float, double"
    same = "  ".join(
        f"static_assert(is_same_v<cuda::std::tuple_element_t<{at}, {const} cute::tuple<{types}>>, "
        f"cuda::std::tuple_element_t<{at}, {const} cuda::std::tuple<{types}>>>);\n"
        for at in range(6)
        for const in ("", "const")
    )
    use = (
        "auto made = cute::make_tuple(1.0f, 2, cute::make_tuple(v, cute::_6{}), 7, 8);\n"
        "  out[0] = cute::get<0>(cute::get<2>(made)) + cute::get<4>(made);"
    )
    result = compiler.compile(parse(with_line("", body_with(f"float v = x[0];\n  {same}  {use}"))))
    assert result.status is Status.PASSED, result.log


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gemm_bf16", "gemm_async"])
def test_lean_headers_make_the_same_code(compiler, name):
    kernel = parse((ROOT / "tests" / "data" / "kernels" / f"{name}.cu").read_text())
    nvrtc = Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
    options = compile_server.compile_options(compiler.arch)
    program = compile_server.PROLOGUE + kernel.to_cpp()
    plain = nvrtc.compile(NvrtcProgram(program, compile_server.PROGRAM_NAME, kernel.kernel_names()), options)
    lean = compiler.compile(kernel).sass
    assert [line for line in lean.splitlines() if "//##" not in line] == [
        line for line in disassemble(plain.cubin).splitlines() if "//##" not in line
    ]


SELDOM_USED = (
    "sizeof(GMMA::Layout_K_SW128_Atom<half_t>)", "sizeof(UMMA::InstrDescriptor)",
    "size(typename MMA_Traits<SM90_64x8x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>>::Shape_MNK{})",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(" + ".join(SELDOM_USED), id="all", marks=pytest.mark.thorough),
        *(pytest.param(u, marks=pytest.mark.thorough if number else ()) for number, u in enumerate(SELDOM_USED)),
    ],
)
def test_headers_that_most_programs_do_without_are_there_where_one_names_them(compiler, use):
    result = compiler.compile(parse(with_line("", body_with(f"out[0] = {use};"))))
    assert result.status is Status.PASSED, result.log


def test_what_the_headers_left_out_include_is_there(compiler):
    pairs = "float2 sum, one{1, 2}; cute::fma(sum, one, one, one);"
    body = body_with(f"{pairs} cluster_sync(); out[0] = elect_one_sync() + sum.x;")
    result = compiler.compile(parse(with_line("", body)))
    assert result.status is Status.PASSED, result.log


@pytest.mark.parametrize("arch", [pytest.param(a, marks=pytest.mark.thorough) for a in ("sm_80", "sm_100a", "sm_120a")])
@pytest.mark.slow
def test_every_architecture_compiles(arch):
    compiler = Compiler(arch)
    try:
        result = compiler.compile(parse(RELU))
    finally:
        compiler.close()
    assert result.status is Status.PASSED, result.log
    assert result.kernels[0].instruction_mix["global load 32-bit"] == 4


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hurried(anew, monkeypatch):
    """The same server with short limits."""

    def limit(**limits):
        monkeypatch.setattr(anew, "limits", CompileLimits(**limits))
        return anew

    return limit


def test_a_template_bomb_is_stopped_at_the_time_limit(hurried):
    compiler = hurried(seconds=0.5)
    compiler.warm()
    result = compiler.compile(parse(with_line(TEMPLATE_BOMB)))
    assert result.status is Status.COMPILE_LIMIT
    assert "stopped at its limit of 0.5 s" in result.message
    assert result.seconds > 1  # it got another try
    assert not hurried(seconds=0.25).compile(parse(with_line(TEMPLATE_BOMB))).cached


def test_a_busy_machine_is_not_blamed_on_the_kernel(hurried):
    """The limit counts processor time: what takes long because others use the processor is compiled."""
    compiler = hurried(seconds=1.5)
    compiler.warm()
    with crowded(2.0, compiler._servers.first._process.pid):
        result = compiler.compile(parse(RELU.replace("> 0 ?", "> 0.5f ?")))
    assert result.status is Status.PASSED, result.message
    assert result.seconds > 2.0


@pytest.mark.parametrize("times", [1, 2])
def test_a_compiler_that_something_else_kills_is_not_blamed_on_the_kernel(anew, times):
    anew.warm()
    server = anew._servers.first._process.pid
    children = Path(f"/proc/{server}/task/{server}/children")
    killed = set()

    def kill():
        forks = {int(pid) for pid in children.read_text().split()} - killed
        killed.update(forks)
        for pid in forks:
            os.kill(pid, signal.SIGKILL)
        return len(killed) == times

    with ThreadPoolExecutor() as pool:
        killing = pool.submit(wait_until, kill)
        kernel = parse(RELU.replace("> 0 ?", f"> {times}.25f ?"))
        if times == 1:
            assert anew.compile(kernel).status is Status.PASSED
        else:
            with pytest.raises(MachineError, match="the compiler was killed twice, at no limit of its own"):
                anew.compile(kernel)
        killing.result()


def test_memory_is_limited(hurried):
    result = hurried(seconds=60, memory_bytes=256 << 20).compile(parse(with_line(MEMORY_BOMB)))
    assert result.status is Status.COMPILE_LIMIT
    assert "limit of 0.25 GiB of memory" in result.message


def test_a_flood_of_messages_is_capped(hurried):
    flood = "".join(f"#warning {'x' * 4000}\n" for _ in range(230))
    result = hurried(seconds=30, log_bytes=100_000).compile(parse(with_line(flood)))
    assert result.status is Status.COMPILE_LIMIT
    assert "MB of messages" in result.message
    assert len(result.log) <= 100_000


# -- what a candidate may not reach -----------------------------------------------------------------------------------

CANARY = "canary_5f1d"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.h"
    path.write_text(f"this is {CANARY} and not C++\n")
    return path


def reaching(path: Path) -> dict[str, str]:
    """Return ways to a private file: name -> source line. `deep` climbs from wherever a relative path starts."""
    deep = "../" * 30 + str(path).lstrip("/")
    return {
        "absolute": f'#include "{path}"',
        "angle": f"#include <{path}>",
        "relative": f'#include "{deep}"',
        "relative through a toolchain folder": f"#include <cute/{deep}>",
        "macro": f'#define WHERE "{path}"\n#include WHERE',
        "pasted macro": f"#define TEXT(x) #x\n#define WHERE TEXT({path})\n#include WHERE",
        "spliced": f'#inc\\\nlude "{path}"',
        "digraph": f'%:include "{path}"',
        "after a comment": f'/* */ # /* */ include "{path}"',
        "include_next": f'#include_next "{path}"',
        "embed": f'const char data[] = {{\n#embed "{path}"\n}};',
        "has_include": f'#if __has_include("{path}")\n#error {CANARY}\n#endif',
        "line marker": f'# 1 "{path}"\nint x = ;',
        "line": f'#line 1 "{path}"\nint x = ;',
        "incbin": f'asm(".incbin \\"{path}\\"");',
        "hidden by a string": f'__device__ const char* s = "/*";\n#include "{path}"\n// */',
    }


@pytest.mark.parametrize("way", reaching(Path("/x")))
def test_a_private_file_is_refused_by_the_scan(compiler, secret, way):
    result = compiler.compile(parse(with_line(reaching(secret)[way])))
    assert result.status is Status.COMPILE_ERROR
    assert result.diagnostics[0].tool == "includes"
    assert 13 <= result.diagnostics[0].line <= 15
    assert CANARY not in result.log + str(result.diagnostics)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("way", reaching(Path("/x")))
def test_a_private_file_is_hidden_by_the_sandbox_alone(anew, secret, way, monkeypatch):
    if sandbox.probe_level() is not SandboxLevel.LANDLOCK_SECCOMP:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr("cutegen_core.execute.compiler.compilation.check_includes", lambda *_: ())
    result = anew.compile(parse(with_line(reaching(secret)[way])))
    assert CANARY not in result.log + str(result.diagnostics)
    assert CANARY.encode() not in result.cubin


@pytest.mark.thorough
def test_headers_of_the_toolchain_may_be_included(compiler):
    includes = '#include <cute/atom/mma_atom.hpp>\n#include "cutlass/numeric_types.h"\n#include <cuda/std/limits>'
    assert compiler.compile(parse(with_line(includes))).status is Status.PASSED
    of_cuda = "#include <cuda/barrier>\n#include <cuda/pipeline>\n#include <cuda/annotated_ptr>\n"
    maps = (
        "__device__ void of_cute(TmaDescriptor const*);\n__device__ void f(CUtensorMap const& map) { of_cute(&map); }"
    )
    assert compiler.compile(parse(with_line(of_cuda + maps))).status is Status.PASSED
    first, _ = failure(compiler, with_line("#include <vector>"))
    assert (first.line, first.message) == (13, 'cannot open source file "vector"')


@pytest.mark.thorough
def test_the_server_recovers_from_kill_9(own):
    own.warm()
    server = own._servers.first._process.pid
    os.kill(server, signal.SIGKILL)
    result = own.compile(parse(RELU.replace("0.0f", "1.0f")))
    assert result.status is Status.PASSED
    assert own._servers.first._process.pid != server
    folder = Path(os.environ["CUTEGEN_HOME"]) / "cache" / "prelude"
    assert not (folder / str(server)).exists()


def with_helper(helper, call):
    """RELU with a helper of its own in line 13, and a call of it in line 20."""
    source = RELU.replace("using namespace cute;\n", f"using namespace cute;\n{helper}\n")
    return source.replace("  long base", f"  {call};\n  long base")


COPY = "template <class A, class B> __device__ void copy(A const& a, B& b) { b(0) = a(0); }"
GEMM = "template <class A> __device__ float gemm(A const& a, A const& b, A const& c) { return a(0) * b(0); }"
PRODUCT = "__device__ float product(float a, float b) { return a * b; }"
FILL = "template <class T> __device__ float fill(T& a, float v) { return v; }"


@pytest.mark.parametrize(
    ("name", "helper", "call"),
    [
        ("copy", COPY, "copy(in, in)"),
        ("product", PRODUCT, "out[0] = product(in(0), 2.0f)"),
        pytest.param("gemm", GEMM, "out[0] = gemm(in, in, in)", marks=pytest.mark.thorough),
        pytest.param("fill", FILL, "fill(in, 1.0f)", marks=pytest.mark.thorough),
    ],
)
def test_a_helper_with_a_name_of_cutes_is_named_where_it_is_defined(compiler, name, helper, call):
    kernel = parse(with_helper(helper, call))
    result = compiler.compile(kernel)
    assert result.status is Status.COMPILE_ERROR
    (told,) = collisions(result.diagnostics, kernel)
    assert told.line == 13
    assert told.message.startswith(f"`{name}` is a name of CuTe's, too")


def test_an_error_about_cutes_own_function_is_no_collision(compiler):
    kernel = parse(with_helper("__device__ float twice(float a) { return 2 * a; }", "copy(in, in)"))
    result = compiler.compile(kernel)
    assert result.status is Status.COMPILE_ERROR
    assert collisions(result.diagnostics, kernel) == ()
