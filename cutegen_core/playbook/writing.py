"""Regions -> the text of a kernel file.

1. `KernelContext` gives one region's tensors, layouts, arguments and statements the names the templates use.
2. A template under `templates/` is one kernel; `LEVELS` says which kernels each variant of a region consists of.
3. `write_file` puts the launch plan in front.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from cutegen_core.playbook.pointwise import HELPERS
from cutegen_core.playbook.regions import Kind, Mode, Region, Scratch, fresh
from cutegen_core.playbook.terms import Access, Term
from cutegen_core.playbook.values import COMPUTE_TYPE, ONE, Extent
from cutegen_core.problem import ITEMSIZE

_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
ELEMENT = {
    "float64": "double",
    "float32": "float",
    "float16": "cute::half_t",
    "bfloat16": "cute::bfloat16_t",
    "bool": "uint8_t",
    **{name: f"{name}_t" for name in _INTEGERS},
}
"""What a tensor of a dtype points to. CuTe packs `bool` into bits, so bools travel as bytes."""

_RESERVED = frozenset(
    """
    Tensor Layout Shape Stride Int append auto ceil_div clear complement copy cosize crd crd2idx depth fill flatten
    float gemm get group half int2 index layout local_partition local_tile long make_coord make_layout make_shape
    make_stride make_tensor max min partition print prepend product rank recast remove select shape size slice stride
    swap take tensor tile tiled transform tuple underscore unwrap void warp

    A_EACH B_EACH BK BLOCK BM BN BX BY ITEMS Max Min Sum THREADS TM TN V Wide a a_layout a_memory a_order a_tile acc
    across b b_layout b_memory b_order b_tile by_vector cols_here e fetch first gA gB i inside item j kk l m m_left n
    n_left part rA rB rC row sA sB slices stage tA tB tm tn v vectors wanted
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
"""Names of CuTe, C++ and of the templates' own variables: a tensor of such a name gets an underscore."""


@dataclass(frozen=True)
class ParameterText:
    """A tunable parameter of the plan."""

    name: str
    default: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class TensorText:
    """A tensor of a kernel as the templates need it: m over everything, g a part of it, r in registers."""

    name: str
    pointer: str
    element: str
    layout: str
    flat: bool
    varies: bool

    @property
    def m(self) -> str:
        return f"m{self.name}"

    @property
    def g(self) -> str:
        return f"g{self.name}"

    @property
    def r(self) -> str:
        return f"r{self.name}"


@dataclass(frozen=True)
class TermText:
    """A statement `ctype const name = code`, or a load from `tensor`."""

    name: str
    ctype: str
    code: str
    tensor: TensorText | None
    varies: bool


@dataclass(frozen=True)
class ReductionText:
    """One reduction of a pass."""

    name: str
    kind: str
    ctype: str
    operand: str
    op: str
    identity: str

    @property
    def sum(self) -> str:
        return f"{self.name}_so_far"

    @property
    def part(self) -> str:
        return f"{self.name}_part"


@dataclass(frozen=True)
class PassText:
    """One walk over the row: statements for each element, what is reduced, statements once it is."""

    terms: tuple[TermText, ...]
    reductions: tuple[ReductionText, ...]
    after: tuple[TermText, ...]


@dataclass
class Naming:
    """Names shared by all kernels of one file.

    Attributes:
        lets: expression -> name in `[let]`.
        tensors: tensor of the plan -> name in C++.
    """

    taken: set[str]
    lets: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)

    def let(self, wanted: str, expression: str) -> str:
        """The name of a number of the plan; the same expression has one name in a file."""
        if expression not in self.lets:
            self.lets[expression] = fresh(wanted, self.taken)
        return self.lets[expression]

    def tensor(self, name: str) -> str:
        """The C++ name of a tensor: its own unless CuTe or C++ uses it."""
        if name not in self.tensors:
            self.tensors[name] = f"{name}_" if name in _RESERVED else name
        return self.tensors[name]


class KernelContext:
    """One region's side of the templates (they call it `k`)."""

    def __init__(self, region: Region, name: str, naming: Naming) -> None:
        self.region, self.name, self.naming = region, name, naming
        self._numbers: dict[str, str] = {}
        self.full_output = region.full_output
        self._rename = self._term_names()
        self.root = self._renamed(region.root)
        self._tensors: list[tuple[Access, TensorText]] = []
        if region.kind is Kind.ELEMENTWISE:
            self._elementwise()
        elif region.kind is Kind.ROWS:
            self._rows()
        else:
            self._product()
        for size, (ctype, expression) in region.terms.sizes.items():
            self._rename[size] = self._number(size, expression, ctype)
        self._write_statements()

    # What a kernel takes

    @property
    def tensors(self) -> list[TensorText]:
        return [t for _, t in self._tensors]

    @property
    def inputs(self) -> list[TensorText]:
        return self.tensors[:-1]

    @property
    def out(self) -> TensorText:
        return self.tensors[-1]

    @property
    def _pointers(self) -> dict[str, str]:
        return {a.tensor: a.dtype for a, _ in self._tensors}

    @property
    def parameters(self) -> str:
        """The C++ parameter list."""
        written = self.region.out.tensor
        pointers = [
            f"{ELEMENT[dtype]}{'' if tensor == written else ' const'}* {self.naming.tensor(tensor)}"
            for tensor, dtype in self._pointers.items()
        ]
        text = ", ".join(pointers + [f"{ctype} {name}" for name, ctype in self._numbers.items()])
        return text if len(text) < 60 else f"\n    {text}"

    @property
    def arguments(self) -> list[str]:
        """The plan's arguments, in the order of `parameters`."""
        return [*self._pointers, *self._numbers]

    def _number(self, wanted: str, expression: str, ctype: str) -> str:
        name = self.naming.let(wanted, expression)
        known = self._numbers.get(name)
        # A count used in float arithmetic is also a length: the wider integer serves both.
        self._numbers[name] = ctype if known is None else known
        return name

    def _stride(self, stride: Extent, wanted: str) -> str:
        if stride.text in ("0", "1"):
            return f"Int<{stride.text}>{{}}"
        name = self._number(f"stride_{wanted}", stride.text, "long")
        return name if self._numbers[name] == "long" else f"long({name})"

    # Layouts

    def _elementwise(self) -> None:
        region = self.region
        self.n = self._number("n", f"{region.out.tensor}.numel", "long")
        for access in region.accesses:
            flat = self._is_flat(access)
            layout = f"make_layout(make_shape({self.n}))" if flat else self._nested(region.outer, access)
            self._add(access, layout, flat=flat)
        widest = max([ITEMSIZE[a.dtype] for a, t in self._tensors if t.flat], default=4)
        self.width, self.vector_bits = max(1, 16 // widest), 128
        self.function = f"{self.name.removesuffix('_kernel')}_of"

    def _is_flat(self, access: Access) -> bool:
        step = 1
        for mode in reversed(self.region.outer):
            if mode.stride(access).size != step and mode.extent.size != 1:
                return False
            step *= mode.extent.size
        return access.offset.size == 0

    def _rows(self) -> None:
        region = self.region
        outer, reduced = region.outer or (Mode(("-",), ONE),), region.reduced
        self.rows = self._number("rows", _product_text(outer), "int")
        self.cols = self._number("cols", _product_text(reduced), "int")
        symbols = region.terms.reduced
        for access in region.accesses:
            varies = any(s in symbols for s in access.strides)
            across = self._modes(outer, access, self.rows)
            shape, stride = (self._modes(reduced, access, self.cols), across) if varies else (across, None)
            text = (
                f"make_layout(make_shape({shape[0]}, {stride[0]}), make_stride({shape[1]}, {stride[1]}))"
                if stride else f"make_layout({_wrapped('make_shape', shape[0])}, {_wrapped('make_stride', shape[1])})"
            )  # fmt: skip
            self._add(access, text, varies=varies)
        widest = max([ITEMSIZE[a.dtype] for a, t in self._tensors if t.varies], default=4)
        self.width, self.vector_bits = max(1, 16 // widest), 128

    def _product(self) -> None:
        region = self.region
        *batch, rows, columns = region.outer
        self.M = self._number("M", rows.extent.text, "int")
        self.N = self._number("N", columns.extent.text, "int")
        self.K = self._number("K", region.reduced[0].extent.text, "int")
        self.L = self.naming.let("L", _product_text(batch)) if batch else "1"
        self.ctype = COMPUTE_TYPE[region.out.dtype]
        assert region.a is not None
        assert region.b is not None
        sides = {id(region.a): (rows, region.reduced[0]), id(region.b): (columns, region.reduced[0])}
        for access in region.accesses:
            first, second = sides.get(id(access), (rows, columns))
            parts = [self._modes((first,), access, ""), self._modes((second,), access, "")]
            parts.append(self._modes(tuple(batch) or (Mode(("-",), ONE),), access, "1" if not batch else ""))
            shapes, strides = ", ".join(p[0] for p in parts), ", ".join(p[1] for p in parts)
            self._add(access, f"make_layout(make_shape({shapes}), make_stride({strides}))")
        self.a, self.b = self.tensors[0], self.tensors[1]
        self.a_fast = rows.stride(region.a).text == "1" and region.reduced[0].stride(region.a).text != "1"
        self.b_fast = columns.stride(region.b).text == "1" and region.reduced[0].stride(region.b).text != "1"

    def _modes(self, modes: Sequence[Mode], access: Access, whole: str) -> tuple[str, str]:
        """Shape and stride of merged modes, fastest first; one mode alone is not nested."""
        extents = [whole if len(modes) == 1 and whole else self._extent(m.extent) for m in reversed(modes)]
        strides = [self._stride(m.stride(access), access.tensor) for m in reversed(modes)]
        if len(modes) == 1:
            return extents[0], strides[0]
        return f"make_shape({', '.join(extents)})", f"make_stride({', '.join(strides)})"

    def _extent(self, extent: Extent) -> str:
        return f"Int<{extent.text}>{{}}" if extent.text.isdigit() else self._number("extent", extent.text, "int")

    def _nested(self, modes: Sequence[Mode], access: Access) -> str:
        shape, stride = self._modes(modes or (Mode(("-",), ONE),), access, "")
        return f"make_layout({_wrapped('make_shape', shape)}, {_wrapped('make_stride', stride)})"

    def _add(self, access: Access, layout: str, *, flat: bool = False, varies: bool = False) -> None:
        base = self.naming.tensor(access.tensor)
        pointer = (
            base if access.offset.text == "0" else f"{base} + {self._number('offset', access.offset.text, 'long')}"
        )
        # x and X would both be mX; the same tensor addressed in two ways needs two names as well.
        name = fresh(base[:1].upper() + base[1:], {t.name for t in self.tensors})
        self._tensors.append((access, TensorText(name, pointer, ELEMENT[access.dtype], layout, flat, varies)))

    # Statements

    def _term_names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for term in self.region.terms.terms.values():
            if term.access is not None:
                names[term.name] = fresh(f"{term.access.tensor}_value", self.naming.taken)
            else:
                names[term.name] = f"t{len(names)}" if term.reduction is None else f"{term.reduction[0]}{len(names)}"
        return names

    def _renamed(self, code: str) -> str:
        return re.sub(r"\b(?:v|count)\d*\b", lambda m: self._rename.get(m[0], m[0]), code)

    def _text(self, term: Term) -> TermText:
        tensor = next((t for a, t in self._tensors if a is term.access), None)
        return TermText(self._rename[term.name], term.ctype, self._renamed(term.code), tensor, term.varies)

    def _write_statements(self) -> None:
        terms = self.region.terms
        self.root = self._renamed(self.region.root)
        reductions = [t for t in terms.terms.values() if t.reduction is not None]
        reduced = [t.name for t in reductions]
        levels = max((t.level for t in reductions), default=0)
        roots = [self.region.root, *(t.reduction[1] for t in reductions if t.reduction)]
        fixed = terms.closure(_all_needs(terms.terms, roots), varying=False)
        at_level = {level: tuple(self._text(t) for t in fixed if t.level == level) for level in range(levels + 1)}
        self.before = at_level[0]
        self.epilogue = at_level[0]
        self.passes = [self._pass(level, at_level[level], reduced) for level in range(1, levels + 1)]
        final = terms.closure([self.region.root], varying=True) if self.region.kind is Kind.ROWS else ()
        self.final = tuple(self._text(t) for t in final)
        self.loads = [self._text(t) for t in terms.loads]
        self.computed = tuple(t for t in (*at_level[0], *self.final) if t.tensor is None)

    def _pass(self, level: int, after: tuple[TermText, ...], reduced: Sequence[str]) -> PassText:
        terms = self.region.terms
        here = [terms.terms[name] for name in reduced if terms.terms[name].level == level]
        operands = [t.reduction[1] for t in here if t.reduction]
        statements = tuple(self._text(t) for t in terms.closure(operands, varying=True))
        texts = [
            ReductionText(
                self._rename[t.name], t.reduction[0], t.ctype, self._renamed(t.reduction[1]),
                t.reduction[0].capitalize(), _identity(t.reduction[0], t.ctype),
            )
            for t in here if t.reduction
        ]  # fmt: skip
        return PassText(statements, tuple(texts), after)

    def call(self, index: str, fragment: str = "") -> str:
        """Arguments of the pointwise function at one element."""
        tensors = {t.name: t.tensor for t in self.loads}
        values = []
        for load in self.loads:
            tensor = tensors[load.name]
            assert tensor is not None
            values.append(f"{tensor.r}({fragment})" if fragment and tensor.flat else f"{tensor.m}({index})")
        casts = [f"static_cast<{load.ctype}>({value})" for load, value in zip(self.loads, values, strict=True)]
        return ", ".join([*casts, *(self._rename[s] for s in self.region.terms.sizes)])

    @property
    def pointwise(self) -> str:
        """The chain of an elementwise region as a device function."""
        taken = [f"{t.ctype} {t.name}" for t in self.loads]
        taken += [f"{ctype} {self._rename[size]}" for size, (ctype, _) in self.region.terms.sizes.items()]
        lines = [f"  {t.ctype} const {t.name} = {t.code};" for t in self.computed]
        ctype = (
            self.region.terms.terms[self.region.root].ctype if self.region.root in self.region.terms.terms else "auto"
        )
        body = "\n".join([*lines, f"  return {self.root};"])
        return f"__device__ {ctype} {self.function}({', '.join(taken)}) {{\n{body}\n}}\n"


def _all_needs(terms: Mapping[str, Term], roots: Sequence[str]) -> list[str]:
    """Everything reachable from the roots, through reductions too."""
    found: dict[str, None] = {}
    pending = [r for r in roots if r in terms]
    while pending:
        name = pending.pop()
        if name not in found and name in terms:
            found[name] = None
            pending += terms[name].needs
    return list(found)


def _identity(kind: str, ctype: str) -> str:
    if kind == "sum":
        return f"{ctype}(0)"
    if ctype == "long":
        return "(-9223372036854775807L - 1)" if kind == "max" else "9223372036854775807L"
    return f"{ctype}({'-' if kind == 'max' else ''}INFINITY)"


def _product_text(modes: Sequence[Mode]) -> str:
    return " * ".join(m.extent.text for m in modes if m.extent.text != "1") or "1"


def _wrapped(maker: str, text: str) -> str:
    return text if text.startswith(maker) else f"{maker}({text})"


@functools.cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template takes
    """A template with blank lines folded."""
    text = _templates().get_template(template).render(**values)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))
    return re.sub(r"\{\n\n", "{\n", re.sub(r"\n\n(?=    |  \}|\})", "\n", text)).strip("\n") + "\n"


@dataclass(frozen=True)
class LaunchText:
    """One `[[launch]]` of the plan."""

    kernel: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    args: tuple[str, ...]
    when: str = ""


def _quoted(items: Sequence[str]) -> str:
    return "[" + ", ".join(i if i.isdigit() else f'"{i}"' for i in items) + "]"


def write_file(
    idea: str, naming: Naming, params: Sequence[ParameterText], where: Sequence[str], scratch: Sequence[Scratch],
    launches: Sequence[LaunchText], code: str,
) -> str:  # fmt: skip
    """The whole kernel file."""
    lines = [f'idea = "{idea}"', ""]
    mentioned = re.findall(r"\w+", " ".join(f"{' '.join((*t.grid, *t.args))} {t.when}" for t in launches))
    lets = {name: expression for expression, name in naming.lets.items() if name in mentioned}
    if lets:
        lines += ["[let]", *(f'{name} = "{expression}"' for name, expression in lets.items()), ""]
    if params:
        lines += ["[params]", *(f"{p.name} = {_values(p)}" for p in params)]
        lines += [f"where = {_quoted(where)}"] if where else []
        lines.append("")
    for buffer in scratch:
        shape = _quoted([d.text for d in buffer.dims] or ["1"])
        lines += ["[[scratch]]", f'name = "{buffer.name}"', f'dtype = "{buffer.dtype}"', f"shape = {shape}", ""]
    for launch in launches:
        lines += ["[[launch]]", f'kernel = "{launch.kernel}"', f"grid = {_quoted(launch.grid)}"]
        lines += [f"block = {_quoted(launch.block)}", f"args = {_quoted(launch.args)}"]
        lines += [f'when = "{launch.when}"'] if launch.when else []
        lines.append("")
    lines += ["[numerics]", 'accumulate = "float32"', "deterministic = true"]
    plan = "\n".join(lines)
    head = "#include <cute/tensor.hpp>\n\nusing namespace cute;\n"
    return f"/* cutegen\n{plan}\n*/\n{head}\n{_helpers(code)}{code}"


def _values(parameter: ParameterText) -> str:
    if len(parameter.values) == 1:
        return str(parameter.default)
    return f"{{ default = {parameter.default}, values = [{', '.join(map(str, parameter.values))}] }}"


def _helpers(code: str) -> str:
    """Device functions that the code mentions, in an order in which each knows those it uses."""
    text = render("helpers.j2", used=code).strip("\n")
    text = f"{text}\n\n" if text else ""
    used = set(re.findall(r"\b\w+\b", code))
    needed = [h for name, h in HELPERS.items() if name in used]
    for name in list(HELPERS):
        if any(re.search(rf"\b{name}\b", h) for h in needed) and HELPERS[name] not in needed:
            needed.append(HELPERS[name])
    ordered = [h for h in HELPERS.values() if h in needed]
    return "".join(f"{h}\n" for h in ordered) + text
