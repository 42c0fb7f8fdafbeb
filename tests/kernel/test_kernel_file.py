"""The kernel file: what is read, what is refused and with which line, and the plan of a workload."""

import contextlib
import re
import time
import tracemalloc
from dataclasses import dataclass
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.kernel.kernel_file import parse
from cutegen_core.kernel.plan_limits import most_cluster
from cutegen_core.kernel.screening import blank_comments, screen
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import ScalarArgument, TensorArgument
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec

RELU = """/* cutegen
idea = "128-bit loads, four per thread, one pass"   # shown

[let]
n = "x.numel"

[params]
BLOCK = { default = 256, values = [128, 256, 512] }
ITEMS = 4
where = "BLOCK * ITEMS <= 4096"

[[scratch]]
name = "partial"
dtype = "float32"
shape = ["ceil_div(n, BLOCK)", 2]
init = "zero"

[[launch]]
kernel = "relu<BLOCK, ITEMS>"
grid   = ["ceil_div(n, BLOCK * ITEMS)"]
block  = ["BLOCK"]
smem   = "BLOCK * 4"
args   = ["x", "out", "partial", "n", "negative_slope"]

[[launch]]
kernel = "tail"
grid = [1]
block = [32, 1, 1]
args = ["out"]
when = "n % 2 == 1"

[numerics]
accumulate = "float32"
*/
#include <cute/tensor.hpp>
template <int BLOCK, int ITEMS> __global__ void relu(float const* x, float* out, float* partial, long n, float slope) {}
__global__ void tail(float* out) {}
"""


@dataclass(frozen=True)
class Numbers:
    arch: str = "sm_90a"
    sm_count: int = 132
    smem_max: int = 232448
    warp_size: int = 32


DEVICE = Numbers()


def signature(*shape: int) -> Signature:
    inputs, outputs = TensorSpec("x", "float32", shape), TensorSpec("out", "float32", shape, TensorRole.OUTPUT)
    return Signature((inputs,), (outputs,), {"negative_slope": 0.1})


def minimal(launch: str = "", before: str = "", code: str = "__global__ void k() {}\n") -> str:
    fields = {"kernel": '"k"', "grid": "[1]", "block": "[32]", "args": "[]"}
    for line in launch.splitlines():
        key, _, value = line.partition("=")
        fields[key.strip()] = value.strip()
    body = "\n".join(f"{key} = {value}" for key, value in fields.items() if value != "-")
    return f"/* cutegen\n{before}[[launch]]\n{body}\n*/\n{code}"


def test_reads_every_section() -> None:
    kernel = parse(RELU)
    assert kernel.idea == "128-bit loads, four per thread, one pass"
    assert kernel.defaults() == {"BLOCK": 256, "ITEMS": 4}
    assert kernel.params[0].values == (128, 256, 512)
    assert kernel.kernel_names() == ("relu<BLOCK, ITEMS>", "tail")
    assert kernel.numerics.accumulate == "float32"
    assert RELU.splitlines()[kernel.body_line - 1] == "*/"


def test_program_keeps_the_files_lines() -> None:
    program = parse(RELU).to_cpp({"BLOCK": 512})
    head, _, body = program.partition("#line ")
    assert head == "constexpr int BLOCK = 512;\nconstexpr int ITEMS = 4;\n"
    number, rest = int(body.split()[0]), body.split("\n", 1)[1]
    assert body.split()[1] == '"candidate.cu"'
    first = next(i for i, line in enumerate(rest.split("\n")) if "#include" in line)
    assert RELU.splitlines()[number + first - 1] == "#include <cute/tensor.hpp>"


def test_parameter_kinds_become_cpp_types() -> None:
    before = "[params]\nA = 3\nB = 2.5\nC = true\nD = 5000000000\n"
    program = parse(minimal(before=before)).to_cpp()
    assert "constexpr int A = 3;" in program
    assert "constexpr float B = 2.5f;" in program
    assert "constexpr bool C = true;" in program
    assert "constexpr long long D = 5000000000LL;" in program


def test_plan_of_a_workload() -> None:
    plan = parse(RELU).plan(signature(1000, 3), DEVICE, {"BLOCK": 128})
    (launch,) = plan.launches
    assert (launch.grid, launch.block, launch.smem_bytes) == ((6, 1, 1), (128, 1, 1), 512)
    assert launch.args[:3] == tuple(TensorArgument(n, "float32") for n in ("x", "out", "partial"))
    assert launch.args[3:] == (ScalarArgument(3000, "n"), ScalarArgument(0.1, "negative_slope"))
    assert RELU.splitlines()[launch.line - 1] == "[[launch]]"
    assert (plan.scratch[0].shape, plan.scratch[0].zero) == ((24, 2), True)


def test_when_chooses_by_shape() -> None:
    assert len(parse(RELU).plan(signature(3), DEVICE).launches) == 2


def test_an_empty_output_launches_nothing() -> None:
    assert parse(RELU).plan(signature(0, 5), DEVICE).launches == ()


@pytest.mark.parametrize(
    "params",
    [
        "[params.BLOCK]  # of threads\ndefault = 256\nvalues = [128, 256]\n[params.ITEMS]\ndefault = 4\n",
        "[params]\nITEMS = 4\n[params.BLOCK]\nvalues = [\n  128,\n  256,\n]\ndefault = 256\n",
        "[params]\nBLOCK = { default = 256, values = [128,\n  256] }\nITEMS = 4\n",
        "params.ITEMS = 4\nparams.BLOCK.default = 256\nparams.BLOCK.values = [128, 256]\n",
    ],
)
def test_parameters_change_however_they_are_written(params: str) -> None:
    kernel = parse(minimal(before=params))
    for block in (128, 256, 512):
        changed = parse(kernel.with_param("BLOCK", block))
        assert dict(changed.defaults()) == {"BLOCK": block, "ITEMS": 4}
        assert block in next(p for p in changed.params if p.name == "BLOCK").values
        assert ("# of threads" in params) == ("# of threads" in changed.text)
    assert parse(kernel.with_param("ITEMS", 8)).defaults()["ITEMS"] == 8


def test_changes_go_back_into_the_text() -> None:
    kernel = parse(RELU)
    assert parse(kernel.with_param("BLOCK", 512)).defaults()["BLOCK"] == 512
    assert parse(kernel.with_param("BLOCK", 96)).params[0].values == (128, 256, 512, 96)
    assert parse(kernel.with_param("ITEMS", 8)).defaults() == {"BLOCK": 256, "ITEMS": 8}
    changed = kernel.with_launch(1, "block", "[64]")
    assert parse(changed).plan(signature(3), DEVICE).launches[1].block == (64, 1, 1)
    added = kernel.with_launch(1, "smem", '"4 * BLOCK"')
    assert parse(added).plan(signature(3), DEVICE).launches[1].smem_bytes == 1024
    assert added.count("\n") == RELU.count("\n") + 1
    with pytest.raises(KernelFileError, match="cannot read the expression"):
        kernel.with_launch(1, "smem", '"4 *"')
    with pytest.raises(KernelFileError, match="number 9"):
        kernel.with_launch(8, "smem", "1")
    assert parse(kernel.with_idea('a "better" one')).idea == "a 'better' one"
    assert len(set(changed.split("\n")) - set(RELU.split("\n"))) == 1


def with_many_parameters(count: int) -> str:
    values = "{ default = 0, values = [0, 1, 2, 3] }"
    return RELU.replace("ITEMS = 4\n", "ITEMS = 4\n" + "".join(f"P{k} = {values}\n" for k in range(count)))


def test_combinations_of_parameters_are_counted_before_they_are_listed() -> None:
    """Twenty parameters of four values are a line each, and more combinations than any memory holds."""
    begun = time.process_time()
    with pytest.raises(
        KernelFileError, match=r"the values make 3,298,534,883,328 combinations; at most 65,536 are possible"
    ):
        parse(with_many_parameters(20))
    kernel = parse(with_many_parameters(7))
    assert sum(1 for _ in kernel.combinations(DEVICE)) == 3 * 4**7
    assert time.process_time() - begun < 4, "linear in their number"


def test_combinations_are_made_one_at_a_time() -> None:
    kernel = parse(with_many_parameters(7))
    tracemalloc.start()
    assert len(list(islice(kernel.combinations(DEVICE), 9))) == 9
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


def test_where_prunes_the_sweep() -> None:
    kernel = parse(RELU.replace("<= 4096", "<= 1024"))
    assert [c["BLOCK"] for c in kernel.combinations(DEVICE)] == [256, 128]
    with pytest.raises(KernelFileError, match=r'break where = "BLOCK \* ITEMS <= 1024" \(BLOCK = 512, ITEMS = 4\)'):
        kernel.plan(signature(8), DEVICE, {"BLOCK": 512})


REFUSED = [
    ("", 1, "the file is empty"),
    ("__global__ void k() {}", 1, "opens with a comment '/* cutegen ... */'"),
    ("// hello\n/* cutegen\n*/", 1, "must be the first thing in the file"),
    ("/* cutegen\n[[launch]]\n", 1, "never closed"),
    ("/* cutegen\n*/\nint x;", 1, "the plan launches nothing"),
    (minimal(code=" \n"), 7, "there is no code below the plan"),
    (minimal(before="idea = 'a\n"), 2, "not valid TOML"),
    (minimal(before="idea = 1\nidea = 2\n"), 3, "Cannot overwrite a value"),
    (minimal(before="idea = 3\n"), 2, "idea must be a text"),
    (minimal(before="[parms]\nA = 1\n"), 2, "unknown section 'parms'; did you mean 'params'?"),
    (minimal(before="wher = '1'\n"), 2, "unknown section 'wher'"),
    (minimal(before="where = '1'\n"), 2, "it belongs into [params]"),
    (minimal(before="[[tensormap]]\nname = 'm'\n"), 2, "[[tensormap]] number 1 has no 'tensor'"),
    (minimal(before="[[let]]\nn = 1\n"), 2, "[let] must be one table"),
    (minimal().replace("[[launch]]", "[launch]"), 2, "must be written [[launch]]"),
    (minimal("grids = [1]"), 7, "unknown key 'grids' in [[launch]] number 1; did you mean 'grid'?"),
    (minimal("grid = -"), 2, "[[launch]] number 1 has no 'grid'"),
    (minimal("grid = []"), 4, "grid needs 1 to 3 entries"),
    (minimal("grid = [1, 1, 1, 1]"), 4, "grid has 4 entries (at most 3)"),
    (minimal('grid = "n"'), 4, "grid must be a list"),
    (minimal("grid = [[1]]"), 4, "grid must be a number or an expression in quotes"),
    (minimal('grid = ["n +"]'), 4, "cannot read the expression"),
    (minimal('grid = ["system(1)"]'), 4, "'system' cannot be called"),
    (minimal('grid = ["9 ** 9 ** 9 ** 9 +"]'), 4, "cannot read the expression"),
    (minimal('kernel = "k<<<1>>>"'), 3, "kernel must name a __global__ function"),
    (minimal('kernel = "k; system()"'), 3, "kernel must name a __global__ function"),
    (minimal("kernel = 3"), 3, "kernel must name a __global__ function"),
    (minimal('kernel = "rleu"', code="__global__ void relu(int n) {}\n"), 3, "does not define; did you mean 'relu'?"),
    (minimal("cooperative = 1"), 7, "cooperative must be true or false"),
    (minimal(before="[let]\nn = [1]\n"), 3, "let n must be a number or an expression"),
    (minimal(before="[let]\nmin = 1\n"), 3, "'min' already has a meaning"),
    (minimal(before="[let]\nsm_count = 1\n"), 3, "'sm_count' already has a meaning"),
    (minimal(before="[params]\nint = 1\n"), 3, "'int' cannot be the name of a parameter"),
    (minimal(before="[params]\nA = 'x'\n"), 3, "parameter A must be a finite 64-bit number"),
    (minimal(before="[params]\nA = inf\n"), 3, "parameter A must be a finite 64-bit number"),
    (minimal(before="[params]\nA = 99999999999999999999\n"), 3, "parameter A must be a finite 64-bit number"),
    (minimal(before="[params]\nA = { values = [1] }\n"), 3, "parameter A has no default"),
    (minimal(before="[params]\nA = { default = 1, value = [1] }\n"), 3, "did you mean 'values'?"),
    (minimal(before="[params]\nA = { default = 1, values = [2] }\n"), 3, "default 1 of parameter A is not among"),
    (minimal(before="[params]\nA = 1\nwhere = 'B > 1'\n"), 4, "not 'B'"),
    (minimal(before="[params]\nA = 1\n[let]\nA = 2\n"), 5, "'A' is a parameter already"),
    (minimal(before="[[scratch]]\nname = 's'\ndtype = 'float33'\nshape = [1]\n"), 4, "did you mean 'float32'?"),
    (minimal(before="[[scratch]]\nname = 's'\ndtype = 'float32'\n"), 2, "[[scratch]] number 1 has no 'shape'"),
    (minimal(before="[[scratch]]\nname='s'\ndtype='int8'\nshape=[1]\ninit='one'\n"), 6, 'must be "none" or "zero"'),
    (minimal(before="[numerics]\naccumulate = 'float'\n"), 3, "accumulate must be one of"),
    (minimal(before="[numerics]\nallow = ['everything']\n"), 3, "allow must be a list out of fast_math"),
    (minimal(before="[numerics]\ndeterminstic = true\n"), 3, "did you mean 'deterministic'?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_malformed_plans_are_named_with_their_line(text: str, line: int, message: str) -> None:
    with pytest.raises(KernelFileError, match=re.escape(message)) as caught:
        parse(text)
    assert caught.value.line == line


def test_files_that_are_no_text() -> None:
    with pytest.raises(KernelFileError, match="line 3: byte 0xff is not UTF-8 text: save the file as UTF-8"):
        parse(b"/* cutegen\nidea = 'a'\n\xff*/")
    with pytest.raises(KernelFileError, match=r"the file has 10\.0 MB; a kernel file may have at most 1\.0 MB"):
        parse(b"/" * 10_000_000)
    with pytest.raises(KernelFileError, match="line 2: there is a NUL byte"):
        parse("/* cutegen\n\0*/")
    with pytest.raises(KernelFileError, match="is not UTF-8"):
        parse("/* cutegen \udcff */")


def test_windows_line_ends_and_a_byte_order_mark_are_fine() -> None:
    kernel = parse(b"\xef\xbb\xbf" + RELU.replace("\n", "\r\n").encode())
    assert kernel.plan(signature(3), DEVICE).launches[0].grid == (1, 1, 1)


LIMITS = [
    ("block = [2048]", 5, "k: block (2048, 1, 1) has 2048 threads; the limit is 1024"),
    ("block = [1, 1, 128]", 5, "k: block z is 128; the limit is 64"),
    ("block = [0]", 5, "every entry must be at least 1"),
    ("grid = [1, 70000]", 4, "k: grid y is 70000; the limit is 65535"),
    ("grid = [3000000000]", 4, "k: grid x is 3000000000; the limit is 2147483647"),
    ("grid = [0]", 4, "k: grid (0, 1, 1) launches nothing although there are elements to write"),
    ('grid = ["x.shape[0] - 9"]', 4, "every grid entry must be at least 1"),
    ('grid = ["m"]', 4, "grid: unknown name 'm'"),
    ('grid = ["1.5 * 2"]', 4, "a whole number is needed"),
    ('grid = ["x"]', 4, "'x' is a tensor"),
    ('args = ["y"]', 6, "argument 'y': unknown name 'y'"),
    ('args = ["x.shape[4]"]', 6, "x has 1 dimensions"),
    ("smem = 2097152", 7, "2097152 bytes of shared memory (2.0 MiB); sm_90a allows 232448 (227.0 KiB)"),
    ("smem = -1", 2, "it cannot be negative"),
    ("cluster = [32]", 7, "must have 1 to 16 blocks on sm_90a"),
    ("cluster = [2]", 7, "grid x (1) is not a multiple of cluster x (2)"),
    ('when = "x.numel == 0"', 2, "every 'when' is false"),
    ('when = "x.numel // 0"', 7, "division by zero"),
]


@pytest.mark.parametrize(("launch", "line", "message"), LIMITS, ids=[m for _, _, m in LIMITS])
def test_limits_are_checked_for_each_workload(launch: str, line: int, message: str) -> None:
    with pytest.raises(KernelFileError, match=re.escape(message)) as caught:
        parse(minimal(launch)).plan(signature(8), DEVICE, workload="ragged")
    assert caught.value.line == line
    assert "workload 'ragged'" in str(caught.value)


def test_names_of_the_signature_are_not_hidden() -> None:
    for before in ("[let]\nx = 3\n", "[params]\nout = 3\n", "[let]\nnegative_slope = 2\n"):
        with pytest.raises(KernelFileError, match="is a name of the problem's signature"):
            parse(minimal(before=before)).plan(signature(8), DEVICE)
    with pytest.raises(KernelFileError, match="scratch 'out' is a tensor of the problem already"):
        parse(minimal(before="[[scratch]]\nname='out'\ndtype='int8'\nshape=[1]\n")).plan(signature(8), DEVICE)


def test_parameters_chosen_from_outside_are_checked() -> None:
    kernel = parse(RELU)
    with pytest.raises(KernelFileError, match="no parameter 'BLOK' in this file; did you mean 'BLOCK'"):
        kernel.to_cpp({"BLOK": 1})
    with pytest.raises(KernelFileError, match="parameter BLOCK is a whole number"):
        kernel.to_cpp({"BLOCK": 1.5})


def test_huge_scratch_is_refused() -> None:
    before = "[[scratch]]\nname='s'\ndtype='float32'\nshape=['x.numel * 2 ** 40']\n"
    with pytest.raises(KernelFileError, match="scratch s needs"):
        parse(minimal(before=before)).plan(signature(8), DEVICE)


@given(st.text(alphabet="ab01 [](){}=\"',.#\n*/_-", max_size=120))
@settings(max_examples=300)
def test_any_plan_text_is_answered(toml: str) -> None:
    with contextlib.suppress(KernelFileError):
        parse(f"/* cutegen\n{toml}*/\n__global__ void a() {{}}\n")


SCREENED = [
    ('extern "C" __global__ void k() {}', 'extern "C" hides the parameter types'),
    ("k<<<1, 32>>>();", "kernels are not launched here"),
    ("int main() { return 0; }", "there is no main"),
    ("void f() { cudaMalloc(&p, 4); }", "a call of the CUDA host API"),
    ("torch::Tensor f();", "torch: a kernel file holds device code only"),
    ("__host__ void f();", "a __host__ function"),
    ('#include "/etc/passwd"', '#include "/etc/passwd": only <cute/...>'),
    ("#include <cute/../../../secret.h>", "only <cute/...>"),
    ("#include <iostream>", "only <cute/...>"),
    ("#if __has_include(<stdio.h>)\n#endif", "the file system may not be asked about"),
    ('asm(".incbin \\"/etc/passwd\\"");', "'.incbin' is a directive of the host assembler"),
    ("__attribute__((constructor)) void f();", "code that runs by itself"),
]


@pytest.mark.parametrize(("code", "message"), SCREENED, ids=[m for _, m in SCREENED])
def test_host_code_is_refused_with_a_hint(code: str, message: str) -> None:
    kernel = parse(minimal(code=f"// first\n__global__ void k() {{}}\n{code}\n"))
    (found,) = screen(kernel)
    assert message in found.message
    assert (found.severity, found.tool) == ("error", "screening")
    assert kernel.text.splitlines()[found.line - 1] == code.splitlines()[0]


def test_what_needs_no_include_is_said() -> None:
    (found,) = screen(parse(minimal(code="#include <cstdio>\n__global__ void k(float const* x, float* out) {}")))
    assert "printf, assert and memcpy are there without an include" in found.message


def test_comments_strings_and_device_code_are_not_screened() -> None:
    code = """#include <cute/tensor.hpp>
#include <cuda/std/limits>
// extern "C" int main() <<<
/* cudaMalloc(1) */
__host__ __device__ int f() { return 1'000'000; }
__global__ void k() { char const* s = "k<<<1>>>()"; asm volatile("mov.u32 %0, %%laneid;" : "=r"(x)); }
"""
    assert screen(parse(minimal(code=code))) == ()
    assert len(blank_comments(code)) == len(code)
    assert blank_comments(code).count("\n") == code.count("\n")


@pytest.mark.parametrize(("arch", "most"), [("sm_90a", 16), ("sm_100f", 16), ("sm_120a", 8), ("sm_80", 8)])
def test_clusters_are_as_large_as_the_device_takes(arch: str, most: int) -> None:
    assert most_cluster(arch) == most
