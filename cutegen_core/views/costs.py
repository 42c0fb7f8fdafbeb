"""What kernels cost by the compiler: registers, spills, shared memory, occupancy, instruction mix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cutegen_core.records.trial import Resources, Trial
from cutegen_core.trajectory.read import trial_of
from cutegen_core.trajectory.state import State
from cutegen_core.trajectory.store import Store


class Delta(NamedTuple):
    """A line of a comparison; numbers are None where a candidate has none."""

    name: str
    unit: str
    left: float | None
    right: float | None


class MixRow(NamedTuple):
    """The instructions of a compiled step by class, all its kernels together."""

    step: int
    mix: Mapping[str, int]


def compare(left: Trial | None, right: Trial | None) -> tuple[Delta, ...]:
    """Return what two candidates cost, line by line: registers, spills, shared memory, occupancy, instruction mix.

    Numbers of a kernel have its name where a candidate has several. Where the two have different ones, the most of all
    kernels comes first, which both have.
    """
    found = [t.resources if t else None for t in (left, right)]
    kernels = [{kernel.kernel for kernel in each.kernels} for each in found if each]
    several = any(len(names) > 1 for names in kernels)
    differ = several and kernels[0] != kernels[-1]
    a, b = ((_extremes(each) if differ else {}) | _numbers(each, named=several) if each else {} for each in found)
    return tuple(Delta(name, _unit(name), a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]))


def mix_rows(store: Store, state: State) -> tuple[MixRow, ...]:
    """Return the instruction mix of every step that was compiled."""
    verdicts = ((step.number, step.verdict) for step in state.steps)
    found = ((number, trial_of(store, tried.trial)) for number, tried in verdicts if tried and tried.trial)
    return tuple(MixRow(number, _mix(trial.resources)) for number, trial in found if trial.resources)


def instruction_mix(trial: Trial | None) -> Mapping[str, int]:
    """Return instructions by class over all kernels; empty if it was not compiled."""
    return _mix(trial.resources) if trial and trial.resources else {}


def _mix(resources: Resources) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for kernel in resources.kernels:
        for name, count in kernel.instruction_mix.items():
            total[name] = total.get(name, 0) + count
    return total


def _extremes(resources: Resources) -> dict[str, float]:
    """Return what the kernels cost at most, and the least occupancy on each workload."""
    kernels, occupancy = resources.kernels, dict[str, float]()
    for row in resources.occupancy:
        name = f"occupancy, {row.workload}, at least"
        occupancy[name] = min(100 * row.occupancy, occupancy.get(name, 100.0))
    return {
        "registers, at most": max((k.registers for k in kernels), default=0),
        "spill stores, at most": max((k.spill_store_bytes for k in kernels), default=0),
        "spill loads, at most": max((k.spill_load_bytes for k in kernels), default=0),
        "static shared memory, at most": max((k.smem_static_bytes for k in kernels), default=0),
        **occupancy,
    }


def _numbers(resources: Resources, *, named: bool) -> dict[str, float]:
    numbers: dict[str, float] = {"compile": resources.compile_seconds}
    for kernel in resources.kernels:
        prefix = f"{kernel.kernel} " if named else ""
        numbers[f"{prefix}registers"] = kernel.registers
        numbers[f"{prefix}spill stores"] = kernel.spill_store_bytes
        numbers[f"{prefix}spill loads"] = kernel.spill_load_bytes
        numbers[f"{prefix}static shared memory"] = kernel.smem_static_bytes
        for name, count in sorted(kernel.instruction_mix.items(), key=lambda item: -item[1]):
            numbers[f"{prefix}SASS {name}"] = count
    for row in resources.occupancy:
        name = f"occupancy, {row.workload}{f', {row.kernel}' if named else ''}"
        numbers[name] = min(100 * row.occupancy, numbers.get(name, 100.0))
    return numbers


def _unit(name: str) -> str:
    if name == "compile":
        return "s"
    if name.startswith("occupancy"):
        return "%"
    if "spill" in name or "memory" in name:
        return "B"
    return "instructions" if "SASS" in name else ""
