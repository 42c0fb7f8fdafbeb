"""Evaluate a CuTe expression at every coordinate, by compiling and running a kernel that does nothing else."""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cutegen_core.execute.port import CompiledCode, Execution, Executor
from cutegen_core.kernel.kernel_file import KernelFile, parse
from cutegen_core.kernel.plan_limits import DeviceNumbers
from cutegen_core.kernel.screening import screen
from cutegen_core.records.errors import KernelFileError, UsageError
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import Status
from cutegen_core.views.layouts.pictures import LayoutTable, Partition, Picture

CAPACITY = 1 << 17
MOST_CELLS = 1 << 15
_HEADER = 5
_LAYOUT, _TOO_LARGE = 1, -1
_OPERANDS = {2: "A", 3: "B", 4: "C", 5: "source", 6: "destination"}
_UNKNOWN = re.compile(r"use of undeclared identifier '(\w+)'|identifier \"(\w+)\" is undefined")

_PROBE = """\
/* cutegen
idea = "evaluates one layout"

[[launch]]
kernel = "cutegen_probe"
grid   = ["1"]
block  = ["1"]
args   = ["out"]
*/
#include <cute/tensor.hpp>
using namespace cute;

struct CutegenOut {
  int* at;
  __device__ bool begin(int kind, int rows, int cols, int threads, int values) {
    bool const fits = threads * values <= %(most)d;
    at[0] = fits ? kind : -1; at[1] = rows; at[2] = cols; at[3] = threads; at[4] = values;
    at += %(header)d;
    return fits;
  }
};
template <class L>
__device__ void cutegen_plain(CutegenOut& out, L const& layout) {
  int const total = int(size(layout)), rows = decltype(rank(layout))::value > 1 ? int(size<0>(layout)) : 1;
  if (!out.begin(1, rows, total / rows, total, 1)) return;
  for (int i = 0; i < total; ++i) *out.at++ = int(layout(i));
}
template <class L>
__device__ void cutegen_owned(CutegenOut& out, int kind, int rows, int cols, L const& owned) {
  int const threads = int(size<0>(owned)), values = int(size<1>(owned));
  if (!out.begin(kind, rows, cols, threads, values)) return;
  for (int t = 0; t < threads; ++t)
    for (int v = 0; v < values; ++v) *out.at++ = int(owned(t, v));
}
template <class S, class D>
__device__ void cutegen_draw(CutegenOut& out, Layout<S, D> const& layout) { cutegen_plain(out, layout); }
template <class A, class O, class B>
__device__ void cutegen_draw(CutegenOut& out, ComposedLayout<A, O, B> const& layout) { cutegen_plain(out, layout); }
template <class... T>
__device__ void cutegen_draw(CutegenOut& out, TiledMMA<T...> const& mma) {
  int const m = int(tile_size<0>(mma)), n = int(tile_size<1>(mma)), k = int(tile_size<2>(mma));
  cutegen_owned(out, 4, m, n, mma.get_layoutC_TV());
  cutegen_owned(out, 2, m, k, mma.get_layoutA_TV());
  cutegen_owned(out, 3, n, k, mma.get_layoutB_TV());
}
template <class... T>
__device__ void cutegen_draw(CutegenOut& out, TiledCopy<T...> const& copy) {
  auto tile = shape(typename TiledCopy<T...>::Tiler_MN{});
  int const rows = int(size<0>(tile)), cols = int(size(tile)) / rows;
  cutegen_owned(out, 5, rows, cols, copy.get_layoutS_TV());
  cutegen_owned(out, 6, rows, cols, copy.get_layoutD_TV());
}
__global__ void cutegen_probe(int* out) {
  CutegenOut writer{out};
%(before)s
  cutegen_draw(writer, %(expression)s);
  *writer.at = 0;
}
"""


def probe_source(expression: str, before: Sequence[str] = ()) -> str:
    """Return a kernel file that evaluates the expression at every coordinate.

    Raises:
        UsageError: the expression is empty or is no single expression.
    """
    text = expression.strip().rstrip(";")
    if not text or ";" in text:
        raise UsageError("write one CuTe expression, such as make_layout(make_shape(_8{}, _32{}), LayoutRight{})")
    statements = "\n".join(f"  {statement}" for statement in before)
    return _PROBE % {
        "most": MOST_CELLS, "header": _HEADER, "before": statements, "expression": text,
    }  # fmt: skip


def evaluate(
    executor: Executor, device: DeviceNumbers, expression: str, before: Sequence[str] = (), timeout_s: float = 20.0
) -> tuple[Picture, ...]:
    """Return the layout, or the operands of the partition.

    Raises:
        UsageError: it does not compile or run; the message tells why and what to do.
        MachineError: the machine, not the expression, failed.
    """
    kernel = parse(probe_source(expression, before))
    refused = screen(kernel)
    if refused:
        raise UsageError(f"this cannot be evaluated: {refused[0].message}")
    numbers = _run(executor, device, kernel, timeout_s)
    pictures = tuple(_pictures(numbers))
    if not pictures:
        raise UsageError("this is neither a layout nor a tiled copy or MMA, or it is empty.")
    return pictures


def _run(executor: Executor, device: DeviceNumbers, kernel: KernelFile, timeout_s: float) -> tuple[int, ...]:
    out = TensorSpec("out", "int32", (CAPACITY,), TensorRole.OUTPUT)
    try:
        plan = kernel.plan(Signature((), (out,)), device)
    except KernelFileError as error:
        raise UsageError(f"this cannot be evaluated: {error}") from error
    built = executor.build(kernel, {}, _no_cubin, checked=False)
    if built.status is not Status.PASSED:
        raise UsageError(_why(built.message or "it does not compile", [d.message for d in built.diagnostics]))
    with tempfile.TemporaryDirectory(prefix="cutegen-layout-") as folder, executor.open(built) as execute:
        path = Path(folder) / "out"
        path.write_bytes(bytes(out.nbytes))
        ran = execute(Execution(built, plan, {}, {out: path}, poison=0, timeout_s=timeout_s))
        if ran.status is not Status.PASSED:
            raise UsageError(f"this compiles, but does not run: {ran.message}")
        return struct.unpack(f"<{CAPACITY}i", path.read_bytes())


def _no_cubin() -> CompiledCode:
    raise UsageError("layouts are evaluated on the emulator, which needs no cubin.")


def _why(message: str, details: Sequence[str]) -> str:
    unknown = next((m for text in (message, *details) if (m := _UNKNOWN.search(text))), None)
    if unknown:
        name = unknown[1] or unknown[2]
        return f"{name} is known only at run time: write a number in its place, such as Int<128>{{}}."
    return f"this does not compile: {(details or [message])[0][:400]}"


def _pictures(numbers: Sequence[int]) -> Iterator[Picture]:
    at = 0
    while numbers[at] != 0:
        kind, rows, cols, threads, values = numbers[at : at + _HEADER]
        at += _HEADER
        if kind == _TOO_LARGE:
            raise UsageError(f"{rows} x {cols} is too large to be drawn: at most {MOST_CELLS} elements.")
        cells = numbers[at : at + threads * values]
        at += threads * values
        if kind == _LAYOUT:
            yield LayoutTable(rows, cols, tuple(cells))
        else:
            yield Partition(_OPERANDS[kind], rows, cols, threads, values, _owners(rows * cols, values, cells))


def _owners(count: int, values: int, cells: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    owners: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for index, element in enumerate(cells):
        owners[element].append(divmod(index, values))
    return tuple(tuple(held) for held in owners)
