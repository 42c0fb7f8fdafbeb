"""Define the records of a launch plan before its expressions are evaluated; each knows its line in the file.

`plan_read` reads them from the opening comment, `plan_resolve` evaluates their expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cutegen_core.kernel.expressions import Expression, Number

DEVICE_NAMES = ("sm_count", "smem_max", "warp_size", "arch")


def global_name(kernel: str) -> str:
    """Return a launch's kernel as C++ finds it, whatever `using namespace` brings: cute has a `gemm`, too."""
    return f"::{kernel}"


@dataclass(frozen=True)
class Located:
    """An expression and its line in the kernel file."""

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
        values: the values a tuner may choose; only the default if the parameter is not tunable.
        emulator: the default on the emulator, None where it is the same.
    """

    name: str
    default: Number
    values: tuple[Number, ...]
    line: int = 0
    emulator: Number | None = None

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
    """A `[[tensormap]]` entry before evaluation; every list has the fastest dimension first.

    Attributes:
        box: elements that one copy moves along each dimension.
        dims: extents of the view in elements; None means the tensor's shape, reversed.
        strides: distances along dimensions 1, 2, ... in elements; None means dense.
        offset: first element of the view.
        lines: line of each key; "" stands for the entry itself.
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
        """Return the line of a key, or of the entry if the key is missing."""
        return self.lines.get(key, self.line)


@dataclass(frozen=True)
class LaunchSpec:
    """A `[[launch]]` entry before evaluation.

    Attributes:
        kernel: C++ name expression, such as "relu<BLOCK, ITEMS>".
        args: tensor names and number expressions, as written.
        when: the condition for this launch; None means always.
        once: it depends on parameters and buffers alone, and runs when these change.
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
    once: bool = False

    @property
    def function(self) -> str:
        """The kernel's name without template arguments and namespaces."""
        return self.kernel.split("<")[0].strip().split("::")[-1]

    @property
    def template_names(self) -> frozenset[str]:
        """Every name among the kernel's template arguments."""
        return frozenset(re.findall(r"\b[A-Za-z_]\w*\b", self.kernel.partition("<")[2]))


class Instance(NamedTuple):
    """A kernel to compile, as a C++ name expression, and the line of its launch."""

    kernel: str
    line: int


@dataclass(frozen=True)
class Numerics:
    """The kernel's declaration about its arithmetic; the problem decides what is allowed.

    Attributes:
        reads: what it reads of the machine: "clock", "sm", "warp".
    """

    accumulate: str = ""
    deterministic: bool = True
    allow: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanText:
    """The whole plan.

    Attributes:
        lines: (section, index, key) -> line of the kernel file.
        instances: the kernels to compile, where lets are among their template arguments and the sizes are known.
    """

    idea: str
    lets: tuple[Let, ...]
    params: tuple[Parameter, ...]
    where: tuple[Located, ...]
    scratch: tuple[ScratchSpec, ...]
    launches: tuple[LaunchSpec, ...]
    tensor_maps: tuple[TensorMapSpec, ...]
    numerics: Numerics
    lines: Mapping[tuple[str, int, str], int] = field(default_factory=dict, repr=False)
    instances: tuple[Instance, ...] = ()
