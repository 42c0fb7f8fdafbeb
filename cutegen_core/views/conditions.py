"""Describe the conditions of a measurement in words."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.performance import Conditions
from cutegen_core.records.wording import counted


class ConditionRow(NamedTuple):
    """A condition of a measurement; a doubtful one may have disturbed it."""

    name: str
    text: str
    doubtful: bool = False


def condition_rows(found: Conditions) -> tuple[ConditionRow, ...]:
    """Describe all conditions, the device first."""
    throttled, others = ", ".join(found.throttled), found.other_processes
    return (
        ConditionRow("device", f"{found.device}, driver {found.driver}"),
        ConditionRow("SM clock", f"{_span(found.sm_clock_mhz)} MHz; memory {found.memory_clock_mhz} MHz"),
        ConditionRow("temperature, power", f"{_span(found.temperature_c)} °C, {_span(found.power_w)} W"),
        ConditionRow("throttled", f"{throttled}: the affected samples were dropped", True) if throttled
        else ConditionRow("throttled", "no"),
        ConditionRow("other programs on the GPU", f"{others}: may have disturbed the measurement", True) if others
        else ConditionRow("other programs on the GPU", "none"),
        ConditionRow("between samples",
                     f"L2 flushed by writing {found.flushed_bytes / 1e6:.0f} MB; {counted(found.sets, 'buffer set')}"),
        ConditionRow("waited for the device", f"{found.lock_wait_s:.2f} s"),
    )  # fmt: skip


def _span(values: tuple[float, float]) -> str:
    low, high = values
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
