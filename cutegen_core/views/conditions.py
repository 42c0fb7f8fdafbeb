"""Say in words under which conditions a time was measured."""

from __future__ import annotations

from typing import NamedTuple

from cutegen_core.records.performance import Conditions


class ConditionRow(NamedTuple):
    """A condition; a doubtful one may have disturbed the measurement."""

    name: str
    text: str
    doubtful: bool = False


def condition_rows(found: Conditions) -> tuple[ConditionRow, ...]:
    """Return all conditions, the device first."""
    throttled, others = ", ".join(found.throttled), found.other_processes
    return (
        ConditionRow("device", f"{found.device}, driver {found.driver}"),
        ConditionRow("SM clock", f"{_span(found.sm_clock_mhz)} MHz; memory {found.memory_clock_mhz} MHz"),
        ConditionRow("temperature, power", f"{_span(found.temperature_c)} °C, {_span(found.power_w)} W"),
        ConditionRow("throttled", f"{throttled}: those samples were dropped", True) if throttled
        else ConditionRow("throttled", "no"),
        ConditionRow("other programs on the GPU", f"{others}: they may have disturbed it", True) if others
        else ConditionRow("other programs on the GPU", "none"),
        ConditionRow("between samples",
                     f"L2 emptied by writing {found.flushed_bytes / 1e6:.0f} MB; {found.sets} sets of buffers"),
        ConditionRow("waited for the device", f"{found.lock_wait_s:.2f} s"),
    )  # fmt: skip


def _span(values: tuple[float, float]) -> str:
    low, high = values
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
