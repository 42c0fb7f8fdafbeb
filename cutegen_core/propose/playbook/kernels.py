"""A region as the templates see it, under the name `k`: a class for each kind of kernel.

1. The region's terms get readable names.
2. Each tensor gets a layout of the coordinates the kernel walks, each number it needs becomes a parameter.
3. The terms become statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.parameters import NO_MODES, VECTOR_BYTES, Parameters, TensorText, layout_of
from cutegen_core.propose.playbook.pointwise.filling import fill
from cutegen_core.propose.playbook.pointwise.operations import UNARY
from cutegen_core.propose.playbook.regions import Mode, Region
from cutegen_core.propose.playbook.statements import Statements, StoreText, TermText, term_names
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import COMPUTE_TYPE, Extent, Size


class RegionKernel(ABC):
    """What every template reads of its region."""

    vector_bits = 8 * VECTOR_BYTES

    def __init__(self, region: Region, name: str, naming: Naming) -> None:
        self.region, self.name, self.naming = region, name, naming
        names = term_names(region, naming)
        self._parameters = Parameters({s.out.tensor for s in region.stores}, naming)
        self._lay_out()
        self.pointers = [self._parameters.point_to(*each) for each in region.terms.pointers.items()]
        names |= {f"source{k}": pointer for k, (_, pointer) in enumerate(self.pointers)}
        self.sizes: dict[str, str] = {}
        for size, (ctype, expression) in region.terms.sizes.items():
            names[size] = self._parameters.number(size, expression, ctype)
            self.sizes[names[size]] = ctype
        self.statements = Statements(region, names, self._parameters)

    @abstractmethod
    def _lay_out(self) -> None:
        """Add the region's numbers, and every access with its layout, to the parameters."""

    @property
    def tensors(self) -> list[TensorText]:
        return self._parameters.tensors

    @property
    def inputs(self) -> list[TensorText]:
        return self.tensors[: -len(self.region.stores)]

    @property
    def outputs(self) -> list[TensorText]:
        return self.tensors[-len(self.region.stores) :]

    @property
    def out(self) -> TensorText:
        return self.outputs[0]

    @property
    def parameters(self) -> str:
        """Return the C++ parameter list."""
        return self._parameters.text

    def pass_number(self, wanted: str, expression: str, ctype: str) -> str:
        """Add a number of the plan to the parameters and return its name."""
        return self._parameters.number(wanted, expression, ctype)

    def multiples(self, width: int, texts: Iterable[str]) -> str:
        """Return the plan's condition under which numbers of the plan, as expressions, are multiples of `width`."""
        named = dict.fromkeys(self.naming.let("step", text) for text in texts if text != "0")
        return " and ".join(f"{name} % {width} == 0" for name in named)

    @property
    def names(self) -> str:
        """Return the parameters' names, as one kernel's function passes them on to another."""
        return self._parameters.names

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the plan's arguments, in the order of `parameters`."""
        return self._parameters.arguments


class ElementwiseKernel(RegionKernel):
    """A kernel that computes every element by itself with a device function: `n` elements, vectors of `width`."""

    def _lay_out(self) -> None:
        self.n = self._parameters.number("elements", self.region.elements, "long")
        modes = self.region.outer or NO_MODES
        for access in self.region.accesses:
            flat = self.region.is_flat(access)
            layout = f"make_layout(make_shape({self.n}))" if flat else layout_of(self._parameters.nested(modes, access))
            self._parameters.add(access, layout, flat=flat)
        self.width = self._parameters.vector_width(lambda t: t.flat)
        self.function = f"{self.name.removesuffix('_kernel')}_of"

    @property
    def functions(self) -> list[str]:
        """Return the names of the device functions, one for each result."""
        return [self.function if k == 0 else f"{self.function}{k + 1}" for k in range(len(self.outputs))]

    def call(self, index: str, fragment: str = "") -> str:
        """Return the device functions' arguments at one element; `fragment` names flat tensors held in registers."""
        loads = [f"static_cast<{t.ctype}>({_read(t, index, fragment)})" for t in self.statements.loads]
        return ", ".join([*loads, *self.sizes, *(name for _, name in self.pointers)])

    def results(self, index: str, fragment: str = "") -> list[tuple[TensorText, str]]:
        """Return each result's tensor, and the call that computes its element."""
        arguments = self.call(index, fragment)
        calls = (f"{name}({arguments})" for name in self.functions)
        return [(out, f"static_cast<{out.element}>({code})") for out, code in zip(self.outputs, calls, strict=True)]

    @property
    def pointwise(self) -> str:
        """Return the device functions."""
        return "\n".join(map(self._function, self.functions, self.statements.roots))

    def _function(self, name: str, result: StoreText) -> str:
        lines = [f"  {t.ctype} const {t.name} = {t.code};" for t in self.statements.of(result) if t.tensor is None]
        taken = [f"{t.ctype} {t.name}" for t in self.statements.loads]
        taken += [f"{ctype} {name}" for name, ctype in self.sizes.items()]
        taken += [f"{ctype} {name}" for ctype, name in self.pointers]
        body = "\n".join([*lines, f"  return {result.root};"])
        return f"__device__ {result.ctype} {name}({', '.join(taken)}) {{\n{body}\n}}\n"


class RowsKernel(RegionKernel):
    """A kernel of `rows` rows of `cols` elements, or strips, which may be reduced; they are read in vectors of `width`.

    Attributes:
        length: the plan's expression for `cols`.
        aligned: condition of the plan under which every vector is aligned: offsets, strides and rows are whole vectors.
    """

    def _lay_out(self) -> None:
        outer, reduced = self.region.outer or NO_MODES, self.region.reduced
        self.rows = self._parameters.number("rows", _product_text(outer), "int")
        self.length = _product_text(reduced)
        self.cols = self._parameters.number("cols", self.length, "int")
        for access in self.region.accesses:
            varies = self.region.varies(access)
            parts = [self._parameters.nested(outer, access, self.rows)]
            if varies:
                parts.insert(0, self._parameters.nested(reduced, access, self.cols))
            once = varies and not access.counted and all(m.stride(access).text != "0" for m in outer)
            self._parameters.add(access, layout_of(*parts), varies=varies, once=once)
        self.width = self._parameters.vector_width(lambda t: t.varies)

    @property
    def aligned(self) -> str:
        walked = [a for a in self.region.accesses if self.region.varies(a) and not a.counted]
        steps = [m.stride(a).text for a in walked for m in self.region.outer]
        return self.multiples(self.width, [self.length, *(a.offset.text for a in walked), *steps])

    @property
    def late(self) -> list[TensorText]:
        """Return what many rows read and no reduction needs, such as the weight of a norm."""
        needed = [t.tensor for one in self.statements.passes for t in one.terms]
        wanted = [t for t in self.inputs if t.copied and not t.once and t not in needed]
        return wanted if self.statements.passes else []


class ScanKernel(RowsKernel):
    """A kernel that scans each row: `scanned` says what is combined, `scan` how; then the results are computed.

    Attributes:
        others: what the results need besides what is combined.
    """

    def __init__(self, region: Region, name: str, naming: Naming) -> None:
        super().__init__(region, name, naming)
        assert region.scan is not None
        assert self.statements.scan is not None
        self.scan, self.scanned = self.statements.scan, self.statements.scanned
        self.others = tuple(term for term in self.statements.final if term not in self.scanned)
        self.backwards, self.exclusive = region.scan.backwards, region.scan.exclusive


class SegmentsKernel(RowsKernel):
    """A kernel of which each row is a segment: `order` says which elements belong to it, `place` where it lies."""

    def __init__(self, region: Region, name: str, naming: Naming) -> None:
        super().__init__(region, name, naming)
        texts = {term.name: text for term, text in zip(region.terms.loads, self.statements.loads, strict=True)}
        self.order, self.place = texts[region.order], texts[region.place]


class ProductKernel(RegionKernel):
    """A kernel of L products M x K by K x N in `ctype`; `a_fast`, `b_fast`: rows, not K, are contiguous.

    Attributes:
        mapped: operands come by tensor maps, so that they are no parameters.
    """

    mapped = False

    def _lay_out(self) -> None:
        *batch, rows, columns = self.region.outer
        (inner,) = self.region.reduced
        self.M = self._parameters.number("M", rows.extent.text, "int")
        self.N = self._parameters.number("N", columns.extent.text, "int")
        self.K = self._parameters.number("K", inner.extent.text, "int")
        self._batch = _product_text(batch)
        self.L = self.naming.let("L", self._batch) if batch else "1"
        a, b = self.region.a, self.region.b
        assert a is not None
        assert b is not None
        self.dtype, self.ctype, self.kept = a.dtype, COMPUTE_TYPE[a.dtype], self.region.kept
        sides = {id(a): (rows, inner), id(b): (columns, inner)}
        for access in self.region.accesses:
            if id(access) in sides and self.mapped:
                continue
            first, second = sides.get(id(access), (rows, columns))
            whole = "" if batch else "1"
            modes = (((first,), ""), ((second,), ""), (tuple(batch) or NO_MODES, whole))
            self._parameters.add(access, layout_of(*(self._parameters.nested(m, access, w) for m, w in modes)))
        if not self.mapped:
            self.a, self.b = self.tensors[0], self.tensors[1]
        self.a_fast, self.b_fast = is_fast(rows, inner, a), is_fast(columns, inner, b)

    def pass_count(self) -> None:
        """Make the number of products a parameter, unless it is 1; `count` is what it is called in C++."""
        self.count = "1" if self.L == "1" else self._parameters.number("L", self._batch, "int")

    def widths(self, width: int) -> tuple[tuple[int, str], ...]:
        """Return how many elements of operands are copied at once, and the condition of the plan for each number.

        Operands of which nothing is contiguous (every second column) are only copied one by one.
        """
        if not all(operand.contiguous for operand in operands_of(self.region)):
            return ((1, ""),)
        whole = self.aligned(width)
        return ((width, whole), (1, f"not ({whole})")) if whole else ((width, ""),)

    def aligned(self, width: int) -> str:
        """Return the condition of the plan under which operands are whole, aligned vectors of `width`; "" if always."""
        operands = [operand for operand in operands_of(self.region) if not operand.access.whole]
        return self.multiples(width, [step.text for operand in operands for step in operand.steps])


class ProductOperand(NamedTuple):
    """An operand of a product.

    Attributes:
        contiguous: elements along the dimension that vectors lie along are neighbours in memory.
        steps: what must be multiples of a vector where its vectors are whole and aligned.
    """

    access: TensorAccess
    contiguous: bool
    steps: tuple[Extent, ...]


def operands_of(region: Region) -> Iterator[ProductOperand]:
    """Yield both operands of a product."""
    *batch, rows, columns = region.outer
    (inner,) = region.reduced
    for access, side in ((region.a, rows), (region.b, columns)):
        assert access is not None
        walked = side if is_fast(side, inner, access) else inner
        strides = (m.stride(access) for m in (*batch, side, inner) if m is not walked)
        contiguous = walked.stride(access).text == "1"
        yield ProductOperand(access, contiguous, (walked.extent, access.offset, *strides))


def is_fast(side: Mode, inner: Mode, access: TensorAccess) -> bool:
    """Return whether rows, or columns, of an operand are neighbours in memory, and what is added up is not."""
    return side.stride(access).text == "1" and inner.stride(access).text != "1"


class MappedProduct(ProductKernel):
    """A product whose operands come by tensor maps, or were multiplied before."""

    mapped = True


class AttentionKernel(RegionKernel):
    """A kernel of L attentions of M queries and N keys of D elements, with E columns of values, in `ctype`.

    Attributes:
        mapped: its tensors come and go by tensor maps, so that only the result's type is wanted.
    """

    mapped = False

    def _lay_out(self) -> None:
        *batch, queries, columns = self.region.outer
        keys, depth = self.region.reduced
        self.M, self.N = (
            self._parameters.number(name, mode.extent.text, "int") for name, mode in (("M", queries), ("N", keys))
        )
        number = self.naming.let if self.mapped else partial(self._parameters.number, ctype="int")
        self.D, self.E = number("D", depth.extent.text), number("E", columns.extent.text)
        self.L = self.naming.let("L", _product_text(batch)) if batch else "1"
        sides = ((queries, depth), (keys, depth), (keys, columns), (queries, columns))
        for access, (first, second) in list(zip(self.region.accesses, sides, strict=True))[3 * self.mapped :]:
            modes = (((first,), ""), ((second,), ""), (tuple(batch) or NO_MODES, "" if batch else "1"))
            self._parameters.add(access, layout_of(*(self._parameters.nested(m, access, w) for m, w in modes)))
        if not self.mapped:
            self.q, self.k, self.v = self.tensors[:3]
        self.ctype = COMPUTE_TYPE[self.region.stores[0].out.dtype]
        self.exp = "expf" if self.ctype == "float" else "exp"
        assert self.region.attention is not None
        self.causal = self.region.attention.causal
        self.scale_is_positive = isinstance(self.region.attention.scale, Size)

    def aligned(self, width: int) -> str:
        """Return the condition of the plan under which all rows are whole, aligned vectors."""
        return self.multiples(width, (step.text for step in attention_steps(self.region)))

    def pass_whole(self, width: int) -> None:
        """Make a parameter of whether all rows are whole, aligned vectors; `whole` is what it is called in C++."""
        self.whole = self._parameters.number("whole", self.aligned(width), "bool")

    @property
    def scale(self) -> str:
        """Return the number, or its parameter, that scores are multiplied by."""
        return self.statements.roots[0].root


class MappedAttention(AttentionKernel):
    """Attention whose tensors come and go by tensor maps."""

    mapped = True


class RecurrentKernel(RegionKernel):
    """A kernel of `T` steps of `B` sequences, whose states have `H` elements in `ctype`; `gates` products each.

    Its tensors by attribute of the value; a tensor that there is not is None.
    """

    def _lay_out(self) -> None:
        made, region = self.region.recurrent, self.region
        assert made is not None
        steps, batch, units = region.outer
        gates, width = region.reduced
        self.kind, self.backwards = made.kind, made.backwards
        self.T, self.B, self.H = (
            self._parameters.number(name, mode.extent.text, "int")
            for name, mode in (("T", steps), ("B", batch), ("H", width))
        )
        names = [name for name in ("given", "weight", "bias", "state", "cells") if getattr(made, name) is not None]
        walked = {
            "given": (gates, batch, steps), "weight": (gates, width), "bias": (gates,), "state": (width, batch),
            "cells": (width, batch),
        }  # fmt: skip
        for access, modes in zip(
            region.accesses, [*(walked[name] for name in names), (units, batch, steps)], strict=True
        ):
            self._parameters.add(access, layout_of(*(self._parameters.nested((mode,), access) for mode in modes)))
        texts = dict(zip(names, self.tensors, strict=False))
        self.given, self.weight = texts["given"], texts["weight"]
        self.bias, self.state, self.cells = (texts.get(name) for name in ("bias", "state", "cells"))
        self.ctype = COMPUTE_TYPE[region.stores[0].out.dtype]
        self.gates = {"lstm": 4, "gru": 3}.get(made.kind, 1)

    @property
    def time(self) -> str:
        """Return where a step lies in the tensors, as C++."""
        return f"{self.T} - 1 - step" if self.backwards else "step"

    def formula(self, operation: str, operand: str) -> str:
        """Return a function of a gate as C++."""
        return fill(UNARY[operation], (operand,), self.ctype, fast=self.region.terms.fast)


def attention_steps(region: Region) -> Iterator[Extent]:
    """Yield the numbers that are whole vectors where all rows of attention are whole and aligned."""
    columns, depth = region.outer[-1], region.reduced[1]
    for access, walked in zip(region.accesses, (depth, depth, columns, columns), strict=True):
        others = [m for m in (*region.outer, *region.reduced) if m is not walked]
        found = [walked.extent, access.offset, *(m.stride(access) for m in others)]
        yield from (step for step in found if step.text != "0")


def _product_text(modes: Sequence[Mode]) -> str:
    return " * ".join(m.extent.text for m in modes if m.extent.text != "1") or "1"


def _read(load: TermText, index: str, fragment: str) -> str:
    assert load.tensor is not None
    return f"{load.tensor.r}({fragment})" if fragment and load.tensor.flat else f"{load.tensor.m}({index})"
