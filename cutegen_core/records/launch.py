"""Launch plan resolved for one workload: plain numbers, ready for any executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

Dim3 = tuple[int, int, int]

ONCE_CALLS = 100
"""A launch marked `once` runs when parameters change. That is taken to happen every so many calls: so large a share of
its time is counted in each."""

TENSOR_MAP_BYTES = 128
PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every device with clusters takes."""
"""Size of the opaque descriptor that a kernel takes by value, as `const __grid_constant__ CUtensorMap`."""

SWIZZLE_SPAN_BYTES: Mapping[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Swizzle -> span in bytes within which it permutes 16-byte chunks; the inner box extent may not exceed it."""


@dataclass(frozen=True)
class TensorArgument:
    """Pointer argument: the name of a tensor of the signature or of a scratch buffer."""

    name: str
    dtype: str


@dataclass(frozen=True)
class ScalarArgument:
    """Number argument; the compiled kernel decides its width in C.

    Attributes:
        text: the plan's expression for it, for messages.
    """

    value: int | float
    text: str


@dataclass(frozen=True)
class TensorMapArgument:
    """Tensor map of the plan, by name: 128 bytes passed by value."""

    name: str


Argument = TensorArgument | ScalarArgument | TensorMapArgument


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: the name expression, such as "relu<BLOCK, ITEMS>".
        smem_bytes: dynamic shared memory.
        line: 1-based line of the launch in the plan.
        once: it depends on parameters and buffers alone, and runs when these change, not in each call.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    smem_bytes: int
    args: tuple[Argument, ...]
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False
    line: int = 0
    once: bool = False


@dataclass(frozen=True)
class Scratch:
    """Workspace that the host allocates before the first launch.

    Attributes:
        zero: True zeroes it inside the timed region; False fills it with poison bytes.
        kept: a launch marked `once` makes it; the others may read it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    zero: bool
    kept: bool = False


class TensorMapCodes(NamedTuple):
    """Enumerators of cuda.h for a tensor map, in the order of cuTensorMapEncodeTiled's parameters."""

    data_type: int
    interleave: int
    swizzle: int
    l2_promotion: int
    oob_fill: int


@dataclass(frozen=True)
class TensorMap:
    """Content of a TMA descriptor; the executor encodes it for the address of the tensor in its memory.

    With p = address of `tensor` + offset_bytes (a multiple of 16, so the tensor itself must be 16-byte aligned), the
    call is cuTensorMapEncodeTiled(&descriptor, codes.data_type, rank, p, dims, strides_bytes, box, element_strides,
    codes.interleave, codes.swizzle, codes.l2_promotion, codes.oob_fill): dims and strides as cuuint64_t, the others as
    cuuint32_t. `plan_resolve` has checked every rule of that call, and that the whole view lies within the tensor.

    Attributes:
        tensor: a tensor of the signature or a scratch buffer.
        dtype: of its elements.
        offset_bytes: distance of the view from the start of the tensor.
        dims: elements along each dimension, the fastest-varying first; 1 to 5 of them.
        strides_bytes: distance of neighbours along dims 1, 2, ...: one number less than `dims`; dimension 0 is dense.
        box: elements that one copy moves along each dimension.
        element_strides: step along each dimension; always 1.
        swizzle: "none", "32B", "64B" or "128B".
        interleave: "none", "16B" or "32B".
        l2_promotion: "none", "64B", "128B" or "256B".
        oob_fill: "zero" or "nan": the value that a load returns where the box leaves the tensor.
        line: 1-based line of the tensor map in the plan.
    """

    name: str
    tensor: str
    dtype: str
    offset_bytes: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    interleave: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zero"
    line: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def codes(self) -> TensorMapCodes:
        return TensorMapCodes(
            TENSOR_MAP_DATA_TYPES[self.dtype],
            INTERLEAVES.index(self.interleave),
            SWIZZLES.index(self.swizzle),
            L2_PROMOTIONS.index(self.l2_promotion),
            OOB_FILLS.index(self.oob_fill),
        )


# CUtensorMapDataType, CUtensorMapInterleave, ... of cuda.h (CUDA 13.0); the index in a tuple is the enumerator's value.
TENSOR_MAP_DATA_TYPES: Mapping[str, int] = {
    "uint8": 0, "int8": 0, "bool": 0, "int16": 1, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9, "float8_e4m3fn": 0, "float8_e5m2": 0,
}  # fmt: skip
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = tuple(SWIZZLE_SPAN_BYTES)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")


@dataclass(frozen=True)
class LaunchPlan:
    """All launches of one workload, in order on one stream; launches whose `when` is false are left out.

    Attributes:
        tensor_maps: the maps that these launches use.
    """

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()

    def part(self, *, once: bool) -> LaunchPlan:
        """Return the launches marked `once`, or the others, as a plan of its own with their scratch and tensor maps.

        Scratch that is kept is in neither: it is what the one part writes and the other reads.
        """
        launches = tuple(replace(launch, once=False) for launch in self.launches if launch.once is once)
        used = {
            argument.name for launch in launches for argument in launch.args if isinstance(argument, TensorMapArgument)
        }
        scratch = () if once else tuple(each for each in self.scratch if not each.kept)
        return LaunchPlan(launches, scratch, tuple(each for each in self.tensor_maps if each.name in used))
