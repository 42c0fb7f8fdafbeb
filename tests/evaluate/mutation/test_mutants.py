"""Mutants: every kind of defect, only in live code, always another kernel file, always the same list."""

import pytest

from cutegen_core.evaluate.mutation.edit import MutantKind as Kind
from cutegen_core.evaluate.mutation.mutants import find_mutants
from cutegen_core.kernel.kernel_file import parse
from tests.places import DATA, KERNELS

PLAN = """/* cutegen
[let]
n = "x.shape[0] * x.shape[1]"

[[scratch]]
name = "parts"
dtype = "float32"
shape = ["n"]
init = "zero"

[[launch]]
kernel = "first"
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["x", "parts", "n"]

[[launch]]
kernel = "second"
grid = [1]
block = [256]
smem = "4 * 256"
args = ["parts", "out", "n"]
*/
"""
SECOND = "__global__ void second(float const* parts, float* out, int n) { out[0] = parts[0]; }\n"
SOURCES = (DATA / "relu.cu", KERNELS / "argmax.cu", KERNELS / "gemm_bf16.cu", DATA / "transpose_tma.cu")


def kernel(statements, before=""):
    return f"{PLAN}{before}__global__ void first(float const* x, float* parts, int n) {{\n{statements}\n}}\n{SECOND}"


def changes(statements, kind, before=""):
    """Return what mutants of that kind make of the statements: the line of the file that differs."""
    source = kernel(statements, before)
    lines = source.splitlines()
    found = []
    for mutant in find_mutants(source):
        if mutant.kind is kind:
            other = mutant.text.splitlines()
            found += [new for old, new in zip(lines, other, strict=True) if old != new]
    return found


CASES = {
    "a bound": ("if (i < n) f(i);", Kind.COMPARISON, "if (i <= n) f(i);"),
    "an operator": ("int i = a * b;", Kind.ARITHMETIC, "int i = a + b;"),
    "an operand": ("float d = expf(v - largest);", Kind.ARITHMETIC, "float d = expf(v);"),
    "a logical operator": ("if (i > 0 && i < n) f(i);", Kind.LOGIC, "if (i > 0 || i < n) f(i);"),
    "a shift": ("int i = j >> 2;", Kind.LOGIC, "int i = j << 2;"),
    "a condition": ("if (i < n) return;", Kind.CONDITION, "if (false) return;"),
    "a choice": ("x = i < n ? a : b;", Kind.CONDITION, "x = i < n || true ? a : b;"),
    "an integer": ("int i = 16;", Kind.CONSTANT, "int i = 8;"),
    "a mask": ("f(0xffffffffu);", Kind.CONSTANT, "f(0x7fffffffu);"),
    "a float": ("float a = 0.5f;", Kind.CONSTANT, "float a = -0.5f;"),
    "a static integer": ("auto s = make_shape(_64{}, n);", Kind.CONSTANT, "auto s = make_shape(cute::Int<32>{}, n);"),
    "an epsilon": ("float a = b + 1e-5f;", Kind.EPSILON, "float a = b + 0.0f;"),
    "a named epsilon": ("float a = b + eps;", Kind.EPSILON, "float a = b + (eps * 1000.0f);"),
    "a start": ("float most = -INFINITY;", Kind.INITIAL, "float most = 0;"),
    "an axis": ("int i = threadIdx.x;", Kind.INDEX, "int i = threadIdx.y;"),
    "an element": ("f(x[i]);", Kind.INDEX, "f(x[(i) + 1]);"),
    "an extent": ("__shared__ float tile[256];", Kind.INDEX, "__shared__ float tile[(256) - 1];"),
    "a loop's start": ("for (int i = a; i < n; ++i) f(i);", Kind.INDEX, "for (int i = a + 1; i < n; ++i) f(i);"),
    "coordinates": ("auto c = make_coord(row, column);", Kind.ORDER, "auto c = make_coord(column, row);"),
    "a type": ("long i = n;", Kind.DTYPE, "int i = n;"),
    "an accumulator": (
        "float sum = 0; sum += a * b;", Kind.PRECISION, "float sum = 0; sum += float(cute::half_t(a * b));",
    ),
    "a bound of small sizes": (
        "for (int i = 0; i < n; ++i) f(i);", Kind.CAP, "for (int i = 0; i < ((n) < 4096 ? (n) : 4096); ++i) f(i);",
    ),
    "a barrier": ("__syncthreads();", Kind.BARRIER, "((void)0);"),
    "a weaker barrier": ("__syncthreads();", Kind.BARRIER, "__syncwarp();"),
    "a group's barrier": ("grid.sync();", Kind.BARRIER, "((void)0);"),
    "a wait": ("cp_async_wait<0>();", Kind.WAIT, "cp_async_wait<1>();"),
    "a fence of copies": ("cp_async_fence();", Kind.WAIT, "((void)0);"),
    "a shuffle": (
        "v += __shfl_down_sync(m, v, 16);", Kind.REDUCTION, "v += __shfl_up_sync(m, v, 16);",
    ),
    "a sum": ("sum += v;", Kind.REDUCTION, "sum = v;"),
    "a function": ("f(expf(a));", Kind.FUNCTION, "f(exp2f(a));"),
    "a rounded quotient": ("int k = ceil_div(n, 4);", Kind.FUNCTION, "int k = ((n) / (4));"),
    "a statement": ("out(i) = v;", Kind.STATEMENT, "((void)0);"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_defect_of_each_kind_is_made(case):
    statements, kind, wanted = CASES[case]
    assert wanted in changes(statements, kind)


PLANS = {
    "a grid that is one short": 'grid = ["max(1, (ceil_div(n, 256)) - 1)"]',
    "a grid without its rest": 'grid = ["(n) // (256)"]',
    "half a block": 'block = ["max(1, (256) // 2)"]',
    "too little shared memory": 'smem = "(4 * 256) // 2"',
    "exchanged arguments": 'args = ["parts", "x", "n"]',
    "the wrong extent": 'n = "x.shape[1] * x.shape[1]"',
    "scratch that is not zeroed": 'init = "none"',
}


@pytest.mark.parametrize("case", PLANS)
def test_a_defect_of_the_plan_is_made(case):
    assert any(PLANS[case] in mutant.text for mutant in find_mutants(kernel("")) if mutant.kind is Kind.LAUNCH)


def test_launches_are_left_out_and_exchanged():
    orders = {tuple(spec.kernel for spec in parse(m.text).launches) for m in find_mutants(kernel(""))}
    assert {("first", "second"), ("second",), ("first",), ("second", "first")} <= orders


UNTOUCHED = {
    "a comment": "// if (i < n) f(i);\n/* __syncthreads(); */",
    "a text": 'char const* words = "i < 12 + 1";',
    "a directive": "#pragma unroll 4\n#if defined(FAST) && 12 < 13\n#endif",
    "a part that is left out": "#if 0\nif (i < n) f(i + 1);\n#ifdef A\nf(3);\n#endif\nf(4);\n#endif",
    "an assertion": 'static_assert(sizeof(float) == 4, "four");',
    "template arguments": "Copy_Atom<Load, Element> atom;",
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_what_computes_nothing_is_left_alone(case):
    def names(source):
        return [(m.kind, m.before, m.after) for m in find_mutants(source)]

    assert names(kernel(UNTOUCHED[case])) == names(kernel(""))


def test_what_no_kernel_reaches_is_left_alone():
    helper = "__device__ float {}(float a) {{ return a + 12.5f; }}\n"
    dead, live = (changes("f(used(x[0]));", Kind.CONSTANT, helper.format(name)) for name in ("unused", "used"))
    assert (any("-12.5" in line for line in dead), any("-12.5" in line for line in live)) == (False, True)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_mutant_is_another_kernel_file_with_a_name_of_its_own(path):
    source = path.read_text()
    mutants = find_mutants(source)
    assert len(mutants) > 20
    assert source not in {m.text for m in mutants}
    assert len({m.text for m in mutants}) == len({m.name for m in mutants}) == len(mutants)
    for mutant in mutants[::17]:
        parse(mutant.text)
    assert mutants == find_mutants(source)
