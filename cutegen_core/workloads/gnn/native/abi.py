"""Declare the native functions for ctypes, which lets other Python threads run during every call."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum

from cutegen_core.workloads.gnn.graph import Array
from cutegen_core.workloads.gnn.native import build


class GaveUp(IntEnum):
    """Why a native function gave up."""

    NODES_FULL = -1
    INDPTR_FULL = -2
    IDX_FULL = -3
    OUT_OF_MEMORY = -4
    BAD_ID = -5
    BAD_ROW = -6
    REPEATED = -7


class RowsOf(Structure):
    """A graph's rows, as `Rows` in sampler.c."""

    _fields_ = (
        ("indptr", c_void_p), ("indices", c_void_p), ("nodes", c_int64), ("edges", c_int64), ("wide", c_int32),
    )  # fmt: skip


class Output(Structure):
    """Where a batch is written, as `Output` in sampler.c."""

    _fields_ = (
        ("nodes", c_void_p), ("indptr", c_void_p), ("idx", c_void_p),
        ("nodes_room", c_int64), ("indptr_room", c_int64), ("idx_room", c_int64),
    )  # fmt: skip


class PairModel(Structure):
    """What the pairs of a generated graph are drawn from, as `PairModel` in graph.c."""

    _fields_ = (
        ("nodes", c_int64), ("classes", c_int64), ("same", c_double), ("low", c_double), ("high", c_double),
        ("offset", c_double), ("power", c_int64),
    )  # fmt: skip


_FUNCTIONS = {
    "map_new": (c_void_p, ()),
    "map_free": (None, (c_void_p,)),
    "sample": (c_int64, (
        c_void_p, POINTER(RowsOf), c_void_p, c_int64, c_void_p, c_int64, c_int32, c_uint64, c_uint64, POINTER(Output),
        c_void_p, c_void_p,
    )),
    "count_rows": (c_int64, (c_void_p, c_void_p, c_int64, c_int64, c_void_p)),
    **{f"place_{bits}": (None, (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)) for bits in (32, 64)},
    **{f"sort_rows_{bits}": (c_int64, (c_void_p, c_int64, c_void_p)) for bits in (32, 64)},
    **{f"first_bad_{bits}": (c_int64, (c_void_p, c_int64, c_int64)) for bits in (32, 64)},
    "draw_pairs": (None, (POINTER(PairModel), c_uint64, c_int64, c_void_p, c_void_p, c_void_p)),
    "transpose_rows": (None, (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p)),
    "gather_rows": (None, (c_void_p, c_int64, c_void_p, c_int64, c_void_p)),
}  # fmt: skip


@functools.cache
def native() -> ctypes.CDLL:
    """Return the library, built by the first process that needs it."""
    library = ctypes.CDLL(str(build.library()))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def address(array: Array) -> int:
    """Return where an array's data lies; keep the array alive while native code uses it."""
    return int(array.ctypes.data)
