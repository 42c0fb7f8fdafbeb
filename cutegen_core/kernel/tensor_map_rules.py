"""The rules a TMA descriptor must keep, checked before a driver says no more than CUDA_ERROR_INVALID_VALUE.

Limits: CUDA Driver API, cuTensorMapEncodeTiled. That everything lies within the tensor is our own rule: what lies
outside of `dims` is filled, what lies inside is read without any check.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from cutegen_core.records.launch import SWIZZLE_SPAN_BYTES, TensorMap
from cutegen_core.records.problem import ITEMSIZE

MAX_RANK = 5
MAX_BOX = 256
MAX_DIM = 1 << 32
MAX_STRIDE_BYTES = 1 << 40
UNIT_BYTES = 16
"""What a descriptor counts addresses, strides and the inner box extent in."""


class Broken(NamedTuple):
    """A rule that is not kept: the key of `[[tensormap]]` that is to blame, and both numbers in words."""

    key: str
    message: str


def broken_rule(tensor_map: TensorMap, numel: int, smem_max: int) -> Broken | None:
    """The first rule `tensor_map` breaks, None when it keeps them all.

    Args:
        numel: elements of its tensor.
        smem_max: bytes of shared memory a block can have; a box must fit.
    """
    for rules in (_rank, _extents, _strides, _bounds, _box, _modes):
        if (broken := next(rules(tensor_map), None)) is not None:
            return broken
    size = ITEMSIZE[tensor_map.dtype]
    last = tensor_map.offset_bytes // size + _span(tensor_map)
    if last > numel:
        text = f"the view reaches element {last - 1} of {tensor_map.tensor}, which has {numel}"
        return Broken("strides" if prod(tensor_map.dims) <= numel else "dims", text)
    moved = prod(tensor_map.box) * size
    if moved > smem_max:
        return Broken("box", f"box {tensor_map.box} is {moved} bytes; a block has {smem_max} bytes of shared memory")
    return None


def _span(tensor_map: TensorMap) -> int:
    """Elements from the first to behind the last one of the view."""
    size = ITEMSIZE[tensor_map.dtype]
    steps = (1, *(stride // size for stride in tensor_map.strides_bytes))
    return 1 + sum((extent - 1) * step for extent, step in zip(tensor_map.dims, steps, strict=True))


def _rank(tensor_map: TensorMap) -> Iterator[Broken]:
    rank = tensor_map.rank
    if not 1 <= rank <= MAX_RANK:
        yield Broken("dims", f"{tensor_map.tensor} has {rank} dimensions; a tensor map has 1 to {MAX_RANK}: give dims")
    if len(tensor_map.strides_bytes) != rank - 1:
        given = len(tensor_map.strides_bytes)
        yield Broken("strides", f"{given} strides for {rank} dimensions; one less is needed, dimension 0 is dense")
    if len(tensor_map.box) != rank:
        yield Broken("box", f"box has {len(tensor_map.box)} entries, the view has {rank} dimensions {tensor_map.dims}")
    if tensor_map.interleave != "none" and rank < 3:
        yield Broken("interleave", f"interleave {tensor_map.interleave} needs 3 dimensions or more, this has {rank}")


def _extents(tensor_map: TensorMap) -> Iterator[Broken]:
    for i, extent in enumerate(tensor_map.dims):
        if not 1 <= extent <= MAX_DIM:
            yield Broken("dims", f"dimension {i} has {extent} elements; 1 to 2^32 are possible")


def _strides(tensor_map: TensorMap) -> Iterator[Broken]:
    unit = 32 if tensor_map.interleave == "32B" else UNIT_BYTES
    size = ITEMSIZE[tensor_map.dtype]
    for i, stride in enumerate(tensor_map.strides_bytes, 1):
        if stride % unit or not 0 < stride < MAX_STRIDE_BYTES:
            text = f"the stride of dimension {i} is {stride // size} elements of {size} bytes, {stride} bytes"
            yield Broken("strides", f"{text}; it must be a multiple of {unit} bytes, more than 0 and below 2^40")
    if tensor_map.offset_bytes % unit or tensor_map.offset_bytes < 0:
        text = f"the view begins {tensor_map.offset_bytes} bytes into {tensor_map.tensor}"
        yield Broken("offset", f"{text}; that must be a multiple of {unit} bytes and not negative")


def _bounds(tensor_map: TensorMap) -> Iterator[Broken]:
    for i, extent in enumerate(tensor_map.box):
        if not 1 <= extent <= MAX_BOX:
            yield Broken("box", f"box dimension {i} has {extent} elements; 1 to {MAX_BOX} are possible")


def _box(tensor_map: TensorMap) -> Iterator[Broken]:
    if tensor_map.interleave != "none":
        return
    size = ITEMSIZE[tensor_map.dtype]
    inner, span = tensor_map.box[0] * size, SWIZZLE_SPAN_BYTES[tensor_map.swizzle]
    said = f"the inner box extent is {tensor_map.box[0]} elements of {size} bytes, {inner} bytes"
    if inner % UNIT_BYTES:
        yield Broken("box", f"{said}; it must be a multiple of {UNIT_BYTES} bytes")
    if span and inner > span:
        yield Broken("box", f"{said}; swizzle {tensor_map.swizzle} allows at most {span} bytes")


def _modes(tensor_map: TensorMap) -> Iterator[Broken]:
    if tensor_map.interleave == "32B" and tensor_map.swizzle != "32B":
        yield Broken("swizzle", f"interleave 32B needs swizzle 32B, not {tensor_map.swizzle}")
    if tensor_map.oob_fill == "nan" and "float" not in tensor_map.dtype:
        yield Broken(
            "oob_fill", f"oob_fill nan needs floating-point elements, {tensor_map.tensor} holds {tensor_map.dtype}"
        )
