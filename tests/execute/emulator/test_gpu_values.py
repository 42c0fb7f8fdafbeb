"""CUDA's functions and operations on the emulator against what an H200 computed of the same numbers.

`function_table` and `operation_table` have the numbers, and record what a GPU computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cutegen_core.records.trial import Status
from tests.execute.emulator import operation_table
from tests.execute.emulator.emulated import Harness
from tests.execute.emulator.function_table import COUNT, NAMES, RECORDED, arguments, plan, source

UNITS: Mapping[str, int] = {
    "tanhf": 3, "erfcf": 5, "erfcxf": 7, "erfinvf": 3, "normcdfinvf": 6, "normcdff": 6, "tgammaf": 11,
    "cyl_bessel_i0f": 6, "cyl_bessel_i1f": 6,
}  # fmt: skip
"""Of functions that CUDA's guide allows more than two units in the last place, how many."""
NEAR_ZERO = {"lgammaf": 1e-5, "j0f": 5e-6, "j1f": 5e-6, "y0f": 5e-6, "y1f": 5e-6}
"""Of functions that lose digits at their zeros: how far they may be off, relative to numbers above one."""


def recorded(path: Path, names: tuple[str, ...]) -> np.ndarray:
    """Return what a GPU computed, a row for each name."""
    with np.load(path) as kept:
        assert tuple(kept["names"].tolist()) == names, f"record {path.name} on a GPU (docs/testing.md)"
        values: np.ndarray = kept["values"]
    return values


def test_a_gpu_computes_what_the_emulator_allows(harness: Harness) -> None:
    """At the upper or lower end of the documented errors, or between them; elsewhere up to a few last places."""
    x, y = arguments()
    ends = []
    for edge in (-1, 0, 1):
        out = {"out": np.zeros((len(NAMES), COUNT), np.float32)}
        ran = harness.run(source(), {"x": x, "y": y}, out, plan(), edge=edge)
        assert ran.status is Status.PASSED, ran.executed
        ends.append(ran.outputs["out"].astype(np.float64))
    wrong = list[str]()
    for name, low, exact, high, got in zip(NAMES, *ends, recorded(RECORDED, NAMES), strict=True):
        for i in np.flatnonzero(~_agrees(name, low, exact, high, got))[:4]:
            wrong.append(f"{name} of ({x[i]}, {y[i]}): {got[i]}, emulated {exact[i]}")
    assert not wrong, wrong


def _agrees(name: str, low: np.ndarray, exact: np.ndarray, high: np.ndarray, got: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        unit = np.maximum(np.spacing(np.abs(got)).astype(np.float64), 2.0**-149)
        digits = {"half": 2.0**13, "bfloat16": 2.0**16}.get(name.split()[0], 1)
        allowed = UNITS.get(name, 2) * unit * digits + NEAR_ZERO.get(name, 0) * np.maximum(np.abs(exact), 1)
        flushed = (np.abs(exact) < 2.0**-126) & (got == 0)
        inside = (got >= np.minimum(low, high) - allowed) & (got <= np.maximum(low, high) + allowed)
        return (got == exact) | (np.isnan(got) & np.isnan(exact)) | (np.isfinite(got) & (inside | flushed))


def test_operations_with_one_right_result_have_it(harness: Harness) -> None:
    operations, given = operation_table.OPERATIONS, operation_table.arguments()
    out = {"out": np.zeros((len(operations), operation_table.COUNT), np.int64)}
    ran = harness.run(operation_table.source(), given, out, operation_table.plan())
    assert ran.status is Status.PASSED, ran.executed
    computed = recorded(operation_table.RECORDED, tuple(each.name for each in operations))
    wrong = []
    for operation, emulated, got in zip(operations, ran.outputs["out"], computed, strict=True):
        seen = [_as_numbers(values, operation.kind) for values in (emulated, got)]
        for i in np.flatnonzero((emulated != got) & ~(np.isnan(seen[0]) & np.isnan(seen[1])))[:4]:
            of = ", ".join(f"{name[0]} {array[i]}" for name, array in given.items())
            wrong.append(f"{operation.name} of {of}: {seen[1][i]}, emulated {seen[0][i]}")
    assert not wrong, wrong


def _as_numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "float":
        return bits.astype(np.uint32).view(np.float32)
    return bits.view(np.float64) if kind == "double" else bits
