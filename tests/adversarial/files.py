"""Texts of kernel files: a plan and device code, put together so that a case shows only what is special about it."""

from __future__ import annotations

ELEMENTS = """[let]
n = "x.numel"

[[launch]]
kernel = "f"
grid   = ["ceil_div(n, 128)"]
block  = ["128"]
args   = ["x", "out", "n"]
"""
"""A thread an element, 128 a block."""

ROWS = """[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "f"
grid   = ["rows"]
block  = ["128"]
args   = ["x", "out", "cols"]
"""
"""A block a row."""

PRODUCT = """[let]
n = "out.shape[1]"
k = "a.shape[1]"

[[launch]]
kernel = "f"
grid   = ["ceil_div(n, 16)", "ceil_div(n, 16)"]
block  = ["16", "16"]
args   = ["a", "b", "out", "n", "k"]
"""
"""A thread an element of the square product."""

RELU = "if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];"


def kernel_file(plan: str, code: str, idea: str = "") -> str:
    head = f'idea = "{idea}"\n' if idea else ""
    return (
        f"/* cutegen\n{head}{plan.strip()}\n*/\n#include <cute/tensor.hpp>\nusing namespace cute;\n\n{code.strip()}\n"
    )


def relu(statements: str = RELU, before: str = "", plan: str = ELEMENTS) -> str:
    """Return `f(x, out, n)` of the ReLU problem; `i` is the thread's element."""
    return kernel_file(plan, f"""{before}
__global__ void f(float const* x, float* out, long n) {{
  long i = long(blockIdx.x) * 128 + threadIdx.x;
  {statements}
}}""")  # fmt: skip


def rows(statements: str, before: str = "", plan: str = ROWS) -> str:
    """Return `f(x, out, cols)`, one block of 128 threads a row."""
    return kernel_file(plan, f"""{before}
__global__ void f(float const* x, float* out, int cols) {{
  float const* row = x + long(blockIdx.x) * cols;
  int t = threadIdx.x;
  {statements}
}}""")  # fmt: skip


def product(statements: str, before: str = "", element: str = "float", plan: str = PRODUCT) -> str:
    """Return `f(a, b, out, n, k)`: `r` and `c` are the thread's row and column, inside the product."""
    return kernel_file(plan, f"""{before}
__global__ void f({element} const* a, {element} const* b, {element}* out, int n, int k) {{
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r >= n || c >= n) return;
  {statements}
}}""")  # fmt: skip


INSTANCES = """[let]
COLS = "x.shape[1]"
[[launch]]
kernel = "f<COLS>"
grid = ["x.shape[0]"]
block = ["128"]
args = ["x", "out"]
when = "COLS == 512 or COLS == 4096"
[[launch]]
kernel = "g"
grid = ["x.shape[0]"]
block = ["128"]
args = ["x", "out", "COLS"]
when = "COLS != 512 and COLS != 4096"
"""
"""Kernels of their own for rows of 512 and 4096, and one for all others."""


def instances(counts: str = "true") -> str:
    """ReLU by rows; in instances an element for which `counts` is false stays as it is."""
    loop = "for (long at = long(blockIdx.x) * COLS + threadIdx.x, end = (blockIdx.x + 1L) * COLS; at < end; at += 128)"
    body = f"  {loop}\n    out[at] = x[at] < 0.0f && COUNTS ? 0.0f : x[at];\n}}\n"
    return kernel_file(
        INSTANCES,
        "template <int COLS> __global__ void f(float const* x, float* out) {\n" + body.replace("COUNTS", counts)
        + "__global__ void g(float const* x, float* out, int COLS) {\n" + body.replace("COUNTS", "true"),
    )  # fmt: skip
