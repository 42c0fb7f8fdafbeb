"""A launch plan resolved for one workload: plain numbers, ready for any executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

Dim3 = tuple[int, int, int]

TENSOR_MAP_BYTES = 128
"""Size of the opaque descriptor a kernel takes as `const __grid_constant__ CUtensorMap`; it is passed by value."""

SWIZZLE_SPAN_BYTES: Mapping[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
"""Swizzle -> bytes within which 16-byte chunks change places; the inner box extent may not be longer."""


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
class TensorMapArgument:
    """A tensor map of the plan, by name: 128 bytes passed by value."""

    name: str


Argument = TensorArgument | ScalarArgument | TensorMapArgument


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
    args: tuple[Argument, ...]
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


class TensorMapCodes(NamedTuple):
    """The enumerators of cuda.h for a tensor map, in the order in which cuTensorMapEncodeTiled takes them."""

    data_type: int
    interleave: int
    swizzle: int
    l2_promotion: int
    oob_fill: int


@dataclass(frozen=True)
class TensorMap:
    """What a TMA descriptor says about a tensor; the executor encodes it for the address the tensor has there.

    With p = address of `tensor` + offset_bytes (a multiple of 16, so the tensor itself must lie at one), the call is
    cuTensorMapEncodeTiled(&descriptor, codes.data_type, rank, p, dims, strides_bytes, box, element_strides,
    codes.interleave, codes.swizzle, codes.l2_promotion, codes.oob_fill): dims and strides as cuuint64_t, the others as
    cuuint32_t. `plan_resolve` has checked every rule of that call, and that all of it lies within the tensor.

    Attributes:
        tensor: a tensor of the signature or a scratch buffer.
        dtype: of its elements.
        offset_bytes: where the view begins.
        dims: elements along each dimension, the fastest first; 1 to 5 of them.
        strides_bytes: distance of neighbours along dims 1, 2, ...: one number less than `dims`; dimension 0 is dense.
        box: elements one copy moves along each dimension.
        element_strides: step along each dimension; always 1.
        swizzle: "none", "32B", "64B" or "128B".
        interleave: "none", "16B" or "32B".
        l2_promotion: "none", "64B", "128B" or "256B".
        oob_fill: "zero" or "nan": what a load puts where the box leaves the tensor.
        line: where the plan says it, 1-based.
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


# CUtensorMapDataType, CUtensorMapInterleave, ... of cuda.h (CUDA 13.0); a place in a tuple is its enumerator's value.
TENSOR_MAP_DATA_TYPES: Mapping[str, int] = {
    "uint8": 0, "int8": 0, "bool": 0, "int16": 1, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = tuple(SWIZZLE_SPAN_BYTES)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")


@dataclass(frozen=True)
class LaunchPlan:
    """All launches of one workload, in order on one stream (those whose `when` is false are left out).

    Attributes:
        tensor_maps: those the launches use.
    """

    launches: tuple[Launch, ...]
    scratch: tuple[Scratch, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
