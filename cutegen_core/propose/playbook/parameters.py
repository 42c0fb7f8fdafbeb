"""Collect what a kernel takes: pointers to its tensors, each with a layout of its region's coordinates, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.regions import Mode
from cutegen_core.propose.playbook.terms import TensorAccess
from cutegen_core.propose.playbook.values import ELEMENT, ONE, Extent, computed
from cutegen_core.records.problem import ITEMSIZE

_HALVES = tuple(ELEMENT[dtype] for dtype in ("float16", "bfloat16"))
_NARROW = (*_HALVES, *(ELEMENT[dtype] for dtype in ("float8_e4m3fn", "float8_e5m2")))
VECTOR_BYTES = 16
"""Of the widest load and store."""
NO_MODES = (Mode(("-",), ONE),)
"""Stands for a domain without coordinates."""


def width_of(dtype: str) -> int:
    """Return how many elements a vector has."""
    return VECTOR_BYTES // ITEMSIZE[dtype]


def vectors_of(elements: Extent, dtype: str) -> Extent:
    """Return how many vectors hold so many elements."""
    width = width_of(dtype)
    return computed(f"ceil_div({{}}, {width})", lambda n: -(-n // width), elements)


@dataclass(frozen=True)
class TensorText:
    """A tensor of a kernel as the templates need it: m over everything, g a part of it, r in registers.

    Attributes:
        iterator: what its elements are read through: memory, or a count of positions.
        counted: its elements are positions, which are computed, not read.
        flat: walked in memory order by every thread.
        varies: along the reduction, or the strip.
        once: no other thread reads or writes an element of it.
    """

    name: str
    iterator: str
    element: str
    layout: str
    flat: bool
    varies: bool
    once: bool = False
    counted: bool = False

    @property
    def copied(self) -> bool:
        """Return whether threads copy parts of it, vector by vector."""
        return self.varies and not self.counted

    def at(self, index: str, place: str) -> str:
        """Return an element of it in a template; "v, item" stands for the one that a thread has there, at `place`."""
        if index != "v, item" or not self.varies:
            return f"{self.m if index == 'row' else self.g}({index})"
        return f"{self.m}({place}, row)" if self.counted else f"{self.r}({index})"

    @property
    def narrow(self) -> bool:
        """Return whether arithmetic has its elements in a wider type."""
        return self.element in _NARROW

    @property
    def is_half(self) -> bool:
        return self.element in _HALVES

    @property
    def m(self) -> str:
        return f"m{self.name}"

    @property
    def g(self) -> str:
        return f"g{self.name}"

    @property
    def r(self) -> str:
        return f"r{self.name}"

    @property
    def p(self) -> str:
        """Return its name in registers as it is in memory, where r has it as arithmetic does."""
        return f"p{self.name}" if self.narrow else self.r


class Nested(NamedTuple):
    """Shape and stride of some modes, as CuTe's text."""

    shape: str
    stride: str


class Parameters:
    """The parameters of one kernel, collected as its layouts are written; the tensors it writes come last."""

    def __init__(self, written: Collection[str], naming: Naming) -> None:
        self._written, self._naming = written, naming
        self._tensors: list[tuple[TensorAccess, TensorText]] = []
        self._numbers: dict[str, str] = {}
        self._read: dict[str, str] = {}

    @property
    def tensors(self) -> list[TensorText]:
        return [t for _, t in self._tensors]

    @property
    def text(self) -> str:
        """Return the C++ parameter list."""
        pointers = [
            f"{ELEMENT[dtype]}{'' if tensor in self._written else ' const'}* {self._naming.tensor(tensor)}"
            for tensor, dtype in self._pointers.items()
        ]
        text = ", ".join(pointers + [f"{ctype} {name}" for name, ctype in self._numbers.items()])
        return text if len(text) < 60 else f"\n    {text}"

    @property
    def names(self) -> str:
        """Return their names in C++, in the order of `text`."""
        return ", ".join([*(self._naming.tensor(tensor) for tensor in self._pointers), *self._numbers])

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the plan's arguments, in the order of `text`."""
        return (*self._pointers, *self._numbers)

    @property
    def _pointers(self) -> dict[str, str]:
        return self._read | {a.tensor: a.dtype for a, _ in self._tensors if not a.counted}

    def point_to(self, tensor: str, dtype: str) -> tuple[str, str]:
        """Add a tensor that is read at computed offsets, and return the pointer's type and name."""
        self._read[tensor] = dtype
        return f"{ELEMENT[dtype]} const*", self._naming.tensor(tensor)

    def tensor_of(self, access: TensorAccess | None) -> TensorText | None:
        return next((t for a, t in self._tensors if a is access), None)

    def vector_width(self, wide: Callable[[TensorText], bool]) -> int:
        """Return how many elements a vector load may have for every tensor of this sort."""
        widest = max([ITEMSIZE[a.dtype] for a, t in self._tensors if wide(t) and not t.counted], default=4)
        return max(1, VECTOR_BYTES // widest)

    def add(
        self, access: TensorAccess, layout: str, *, flat: bool = False, varies: bool = False, once: bool = False
    ) -> None:
        """Add a tensor as it is addressed here."""
        base = "position" if access.counted else self._naming.tensor(access.tensor)
        offset = "" if access.offset.text == "0" else self.number("offset", access.offset.text, "long")
        pointer = " + ".join(x for x in (base, offset) if x)
        iterator = f"counting_iterator<long>{{{offset}}}" if access.counted else f"make_gmem_ptr({pointer})"
        # x and X would both be mX; the same tensor addressed in two ways needs two names as well.
        name = self._naming.view(base, {t.name for t in self.tensors})
        element = ELEMENT[access.dtype]
        text = TensorText(name, iterator, element, layout, flat, varies, once, access.counted)
        self._tensors.append((access, text))

    def number(self, wanted: str, expression: str, ctype: str) -> str:
        """Return the name of a number of the plan, which becomes a parameter."""
        name = self._naming.let(wanted, expression)
        # A count used in float arithmetic is also a length: the type of its first use serves both.
        self._numbers.setdefault(name, ctype)
        return name

    def count(self, wanted: str, extent: Extent) -> str:
        """Return a size as C++: itself, or a parameter."""
        return extent.text if extent.text.isdigit() else self.number(wanted, extent.text, "int")

    def nested(self, modes: Sequence[Mode], access: TensorAccess, whole: str = "") -> Nested:
        """Return merged modes, fastest first; a single mode stays flat, its extent called `whole` if given."""
        extents = [whole if len(modes) == 1 and whole else self._extent(m.extent) for m in reversed(modes)]
        name = "place" if access.counted else access.tensor
        strides = [self._stride(m.stride(access), name) for m in reversed(modes)]
        if len(modes) == 1:
            return Nested(extents[0], strides[0])
        return Nested(f"make_shape({', '.join(extents)})", f"make_stride({', '.join(strides)})")

    def _extent(self, extent: Extent) -> str:
        if extent.text.isdigit():
            return f"Int<{extent.text}>{{}}"
        name = self.number("extent", extent.text, "int" if extent.fits_int else "long")
        # Coordinates are divided by extents: that of a long takes several times as long.
        return f"int({name})" if extent.fits_int and self._numbers[name] == "long" else name

    def _stride(self, stride: Extent, wanted: str) -> str:
        if stride.text in ("0", "1"):
            return f"Int<{stride.text}>{{}}"
        name = self.number(f"stride_{wanted}", stride.text, "long")
        return name if self._numbers[name] == "long" else f"long({name})"


def layout_of(*parts: Nested) -> str:
    """Return a layout with a dimension for each part; for a single nested part, one for each of its modes."""
    if len(parts) == 1 and parts[0].shape.startswith("make_shape"):
        return f"make_layout({parts[0].shape}, {parts[0].stride})"
    shapes, strides = ", ".join(p.shape for p in parts), ", ".join(p.stride for p in parts)
    return f"make_layout(make_shape({shapes}), make_stride({strides}))"
