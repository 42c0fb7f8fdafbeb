"""What the plan of a kernel file says, before its expressions have values: records that remember their lines.

`plan_reading` makes them of the opening comment, `plan_resolve` gives their expressions values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen_core.kernel.expressions import Expression, Number

DEVICE_NAMES = ("sm_count", "smem_max", "warp_size", "arch")


@dataclass(frozen=True)
class Located:
    """An expression and the line of the kernel file it stands on."""

    expression: Expression
    line: int


@dataclass(frozen=True)
class Let:
    """`name = expression` of `[let]`."""

    name: str
    value: Located


@dataclass(frozen=True)
class Parameter:
    """A compile-time constant of the C++.

    Attributes:
        values: what a tuner may choose from; just the default when it is not tunable.
    """

    name: str
    default: Number
    values: tuple[Number, ...]
    line: int = 0

    @property
    def tunable(self) -> bool:
        return len(self.values) > 1


@dataclass(frozen=True)
class ScratchSpec:
    """A `[[scratch]]` entry; `zero` is `init = "zero"`."""

    name: str
    dtype: str
    shape: tuple[Located, ...]
    zero: bool
    line: int


@dataclass(frozen=True)
class TensorMapSpec:
    """A `[[tensormap]]` entry before its expressions have values; every list has the fastest dimension first.

    Attributes:
        box: elements one copy moves along each dimension.
        dims: elements of the view; None: the tensor's own shape, reversed.
        strides: distances along dimensions 1, 2, ... in elements; None: dense.
        offset: first element of the view.
        lines: of its keys; "" is the entry itself.
    """

    name: str
    tensor: str
    box: tuple[Located, ...]
    dims: tuple[Located, ...] | None
    strides: tuple[Located, ...] | None
    offset: Located | None
    swizzle: str
    interleave: str
    l2_promotion: str
    oob_fill: str
    lines: Mapping[str, int]

    @property
    def line(self) -> int:
        return self.lines[""]

    def line_of(self, key: str) -> int:
        """The line of a key, of the entry when it does not have it."""
        return self.lines.get(key, self.line)


@dataclass(frozen=True)
class LaunchSpec:
    """A `[[launch]]` entry before its expressions have values.

    Attributes:
        kernel: C++ name expression, such as "relu<BLOCK, ITEMS>".
        args: tensor names and number expressions, as written.
        when: None when it is always launched.
    """

    kernel: str
    grid: tuple[Located, ...]
    block: tuple[Located, ...]
    args: tuple[Located, ...]
    line: int
    smem: Located | None = None
    cluster: tuple[Located, ...] = ()
    cooperative: bool = False
    when: Located | None = None

    @property
    def function(self) -> str:
        """The kernel's name without template arguments and namespaces."""
        return self.kernel.split("<")[0].strip().split("::")[-1]


@dataclass(frozen=True)
class Numerics:
    """What the kernel declares about its arithmetic; the problem decides what is allowed."""

    accumulate: str = ""
    deterministic: bool = True
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanText:
    """The whole comment. `lines` maps (section, index, key) to a line of the kernel file."""

    idea: str
    lets: tuple[Let, ...]
    params: tuple[Parameter, ...]
    where: tuple[Located, ...]
    scratch: tuple[ScratchSpec, ...]
    launches: tuple[LaunchSpec, ...]
    tensor_maps: tuple[TensorMapSpec, ...]
    numerics: Numerics
    lines: Mapping[tuple[str, int, str], int] = field(default_factory=dict, repr=False)
