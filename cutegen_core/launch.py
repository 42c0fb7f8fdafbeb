"""A launch plan resolved for one workload: plain numbers, ready for any executor."""

from __future__ import annotations

from dataclasses import dataclass

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class TensorArgument:
    """A pointer argument: a tensor of the signature or a scratch buffer, by name."""

    name: str
    dtype: str


@dataclass(frozen=True)
class ScalarArgument:
    """A number argument; its C width is the compiled kernel's business.

    Attributes:
        text: the expression it came from, for messages.
    """

    value: int | float
    text: str


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: the name expression, such as "relu<BLOCK, ITEMS>".
        smem_bytes: dynamic shared memory.
        line: where the plan says it, 1-based.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    smem_bytes: int
    args: tuple[TensorArgument | ScalarArgument, ...]
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False
    line: int = 0


@dataclass(frozen=True)
class Scratch:
    """Workspace the host allocates before the first launch.

    Attributes:
        zero: zeroed inside the timed region; otherwise poisoned.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    zero: bool


@dataclass(frozen=True)
class LaunchPlan:
    """All launches of one workload, in order on one stream (those whose `when` is false are left out)."""

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
