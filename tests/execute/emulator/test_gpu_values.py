"""CUDA's functions on the emulator against what an H200 computed of the same numbers (`function_table`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import Harness, one
from tests.execute.emulator.function_table import COUNT, NAMES, RECORDED, arguments, source

UNITS: Mapping[str, int] = {
    "tanhf": 3, "erfcf": 5, "erfcxf": 7, "erfinvf": 3, "normcdfinvf": 6, "normcdff": 6, "tgammaf": 11,
    "cyl_bessel_i0f": 6, "cyl_bessel_i1f": 6,
}  # fmt: skip
"""Of functions that CUDA's guide allows more than two units in the last place, how many."""
NEAR_ZERO = {"lgammaf": 1e-5, "j0f": 5e-6, "j1f": 5e-6, "y0f": 5e-6, "y1f": 5e-6}
"""Of functions that lose digits at their zeros: how far they may be off, relative to numbers above one."""


def test_a_gpu_computes_what_the_emulator_allows(harness: Harness) -> None:
    """At the upper or lower end of the documented errors, or between them; elsewhere up to a few last places."""
    x, y = arguments()
    plan = one("functions", (-(-COUNT // 128), 1, 1), 128, "x:float32", "y:float32", "out:float32", COUNT)
    ends = []
    for edge in (-1, 0, 1):
        out = {"out": np.zeros((len(NAMES), COUNT), np.float32)}
        ran = harness.run(source(), {"x": x, "y": y}, out, plan, edge=edge)
        assert ran.status is Status.PASSED, ran.executed
        ends.append(ran.outputs["out"].astype(np.float64))
    with np.load(RECORDED) as kept:
        assert tuple(kept["names"].tolist()) == NAMES, "run python -m tests.execute.emulator.function_table on a GPU"
        computed = kept["values"]
    wrong = list[str]()
    for name, low, exact, high, got in zip(NAMES, *ends, computed, strict=True):
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
