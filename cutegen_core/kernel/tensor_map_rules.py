"""Check the rules of a TMA descriptor, because the driver only answers CUDA_ERROR_INVALID_VALUE.

Source of the limits: CUDA Driver API, cuTensorMapEncodeTiled. One rule is the workbench's own: the whole view must lie
within its tensor, because the hardware fills elements outside `dims` but reads those inside without any check.
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
"""Addresses, strides and the inner box extent must be multiples of this many bytes."""


class BrokenRule(NamedTuple):
    """A broken rule: the key of `[[tensormap]]` that breaks it, and a message with both numbers."""

    key: str
    message: str


def find_broken_rule(tensor_map: TensorMap, numel: int, smem_max: int) -> BrokenRule | None:
    """Find the first rule that `tensor_map` breaks; None if it breaks none.

    Args:
        numel: elements of its tensor.
        smem_max: shared memory of one block in bytes; a box must fit in it.
    """
    for rules in (_check_rank, _check_extents, _check_strides, _check_box_extents, _check_inner_box, _check_modes):
        if (broken := next(rules(tensor_map), None)) is not None:
            return broken
    size = ITEMSIZE[tensor_map.dtype]
    last = tensor_map.offset_bytes // size + _span_elements(tensor_map)
    if last > numel:
        text = f"the view reaches element {last - 1} of {tensor_map.tensor}, which has {numel}"
        return BrokenRule("strides" if prod(tensor_map.dims) <= numel else "dims", text)
    moved = prod(tensor_map.box) * size
    if moved > smem_max:
        return BrokenRule(
            "box", f"box {tensor_map.box} is {moved} bytes; a block has {smem_max} bytes of shared memory"
        )
    return None


def _span_elements(tensor_map: TensorMap) -> int:
    """Return the distance in elements from the first element of the view to one past the last."""
    size = ITEMSIZE[tensor_map.dtype]
    steps = (1, *(stride // size for stride in tensor_map.strides_bytes))
    return 1 + sum((extent - 1) * step for extent, step in zip(tensor_map.dims, steps, strict=True))


def _check_rank(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    rank = tensor_map.rank
    if not 1 <= rank <= MAX_RANK:
        yield BrokenRule(
            "dims", f"{tensor_map.tensor} has {rank} dimensions; a tensor map has 1 to {MAX_RANK}: give dims"
        )
    if len(tensor_map.strides_bytes) != rank - 1:
        given = len(tensor_map.strides_bytes)
        yield BrokenRule("strides", f"{given} strides for {rank} dimensions; one less is needed, dimension 0 is dense")
    if len(tensor_map.box) != rank:
        yield BrokenRule(
            "box", f"box has {len(tensor_map.box)} entries, the view has {rank} dimensions {tensor_map.dims}"
        )
    if tensor_map.interleave != "none" and rank < 3:
        yield BrokenRule(
            "interleave", f"interleave {tensor_map.interleave} needs 3 dimensions or more, this has {rank}"
        )


def _check_extents(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    for i, extent in enumerate(tensor_map.dims):
        if not 1 <= extent <= MAX_DIM:
            yield BrokenRule("dims", f"dimension {i} has {extent} elements; 1 to 2^32 are possible")


def _check_strides(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    unit = 32 if tensor_map.interleave == "32B" else UNIT_BYTES
    size = ITEMSIZE[tensor_map.dtype]
    for i, stride in enumerate(tensor_map.strides_bytes, 1):
        if stride % unit or not 0 < stride < MAX_STRIDE_BYTES:
            text = f"the stride of dimension {i} is {stride // size} elements of {size} bytes, {stride} bytes"
            yield BrokenRule("strides", f"{text}; it must be a multiple of {unit} bytes, more than 0 and below 2^40")
    if tensor_map.offset_bytes % unit or tensor_map.offset_bytes < 0:
        text = f"the view begins {tensor_map.offset_bytes} bytes into {tensor_map.tensor}"
        yield BrokenRule("offset", f"{text}; that must be a multiple of {unit} bytes and not negative")


def _check_box_extents(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    for i, extent in enumerate(tensor_map.box):
        if not 1 <= extent <= MAX_BOX:
            yield BrokenRule("box", f"box dimension {i} has {extent} elements; 1 to {MAX_BOX} are possible")


def _check_inner_box(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    if tensor_map.interleave != "none":
        return
    size = ITEMSIZE[tensor_map.dtype]
    inner, span = tensor_map.box[0] * size, SWIZZLE_SPAN_BYTES[tensor_map.swizzle]
    said = f"the inner box extent is {tensor_map.box[0]} elements of {size} bytes, {inner} bytes"
    if inner % UNIT_BYTES:
        yield BrokenRule("box", f"{said}; it must be a multiple of {UNIT_BYTES} bytes")
    if span and inner > span:
        yield BrokenRule("box", f"{said}; swizzle {tensor_map.swizzle} allows at most {span} bytes")


def _check_modes(tensor_map: TensorMap) -> Iterator[BrokenRule]:
    if tensor_map.interleave == "32B" and tensor_map.swizzle != "32B":
        yield BrokenRule("swizzle", f"interleave 32B needs swizzle 32B, not {tensor_map.swizzle}")
    if tensor_map.oob_fill == "nan" and "float" not in tensor_map.dtype:
        yield BrokenRule(
            "oob_fill", f"oob_fill nan needs floating-point elements, {tensor_map.tensor} holds {tensor_map.dtype}"
        )
