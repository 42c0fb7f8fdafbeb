"""Show what a draft's launch plan means: grid, block, shared memory, waves and occupancy of every workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import streamlit as st

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine import device
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.problem import Problem
from cutegen_core.records.trial import Occupancy, Trial
from cutegen_core.records.wording import counted, dims, listed
from cutegen_core.views import SessionView
from cutegen_core.views.plan_preview import PlannedLaunch, PlannedWorkload, preview
from pages.components.editor.shapes import shapes
from pages.components.shared.texts import Html, escape_html, heading, quiet, table

POLL_S = 0.5
_HEADER = ("workload", "grid", "block", "shared, B", "blocks/SM", "occupancy", "waves", "limited by")


class DraftNumbers(NamedTuple):
    """The numbers of a draft.

    Attributes:
        problem: the problem whose workloads they are for.
        waiting: whether the reference is still computing the shapes.
        unknown: why there are no shapes, or "".
    """

    problem: Problem
    target: device.Device
    workloads: tuple[PlannedWorkload, ...] = ()
    waiting: bool = False
    unknown: str = ""

    @property
    def refusals(self) -> Sequence[tuple[int, str]]:
        """Line and reason of every launch that is refused, each once, with the workloads it applies to."""
        names: dict[tuple[int, str], list[str]] = {}
        for one in self.workloads:
            if one.refusal:
                names.setdefault((one.line, one.refusal), []).append(one.workload)
        every = len(self.workloads)
        return [(line, why if len(for_) == every else f"{listed(for_)}: {why}")
                for (line, why), for_ in names.items()]  # fmt: skip

    @property
    def in_a_line(self) -> str:
        """Waves and occupancy of the largest launch for the form's title, or that a launch is refused."""
        if self.refusals:
            return " · ✗ cannot be launched"
        rows = [launch.occupancy for one in self.workloads for launch in one.launches]
        if not rows:
            return ""
        row = max(rows, key=lambda r: r.waves)
        return f" · {row.waves:.2f} waves · {100 * row.occupancy:.0f} % ({row.limiter})"


def look(view: SessionView, kernel: KernelFile, tested: Trial | None) -> DraftNumbers:
    """Compute the numbers of a draft, as far as they are known now."""
    target = device.choose_device(view.state.settings.arch or None)
    asked = shapes(view.problem)
    if not asked.done():
        return DraftNumbers(view.problem, target, waiting=True)
    try:
        compiled = tested.resources.kernels if tested and tested.resources else ()
        return DraftNumbers(view.problem, target, preview(kernel, asked.result(), target, compiled))
    except CutegenError as error:
        return DraftNumbers(view.problem, target, unknown=str(error))


def render_numbers(found: DraftNumbers, tested: Trial | None) -> None:
    """Draw the table, with the last test's number where it differs."""
    heading(f"This draft on {found.target.name}")
    if found.waiting:
        st.fragment(_wait, run_every=POLL_S)(found.problem)
        return
    if found.unknown:
        quiet(f"The workload shapes are unknown: {found.unknown}")
        return
    before = tested.resources.occupancy if tested and tested.resources else ()
    body = [row for one in found.workloads for row in _rows(one, before, several=_several(found))]
    st.html(table(_HEADER, body))
    for said in dict.fromkeys(_rests_on(launch) for one in found.workloads for launch in one.launches):
        quiet(said)


def _wait(problem: Problem) -> None:
    if shapes(problem).done():
        st.rerun()
    quiet("● Getting the workload shapes from the reference …")


def _several(found: DraftNumbers) -> bool:
    return len({launch.occupancy.kernel for one in found.workloads for launch in one.launches}) > 1


def _rows(one: PlannedWorkload, before: Sequence[Occupancy], *, several: bool) -> Iterator[tuple[object, ...]]:
    """Yield a row for each launch, one for those that are equal."""
    if one.refusal:
        yield (one.workload, _failed(one.refusal), *[""] * (len(_HEADER) - 2))
    rows = Counter(
        (launch.occupancy.kernel, *_numbers(launch, old))
        for launch, old in zip(one.launches, _tested(one, before), strict=True)
    )
    for (kernel, *numbers), count in rows.items():
        name = f"{one.workload}, {kernel}" if several else one.workload
        yield (f"{name}, {counted(count, 'launch')}" if count > 1 else name, *numbers)


def _tested(one: PlannedWorkload, before: Sequence[Occupancy]) -> Iterator[Occupancy | None]:
    """Yield what was tested of each launch: the same number among the launches of that kernel, None for a new one."""
    seen: Counter[str] = Counter()
    for launch in one.launches:
        row = launch.occupancy
        same = [old for old in before if (old.workload, old.kernel) == (row.workload, row.kernel)]
        yield same[seen[row.kernel]] if seen[row.kernel] < len(same) else None
        seen[row.kernel] += 1


def _numbers(launch: PlannedLaunch, old: Occupancy | None) -> tuple[str, ...]:
    row, most = launch.occupancy, "" if launch.compiled else "at most "
    return (
        _changed(dims(row.grid), dims(old.grid) if old else ""),
        _changed(dims(row.block), dims(old.block) if old else ""),
        _changed(str(row.smem_bytes), str(old.smem_bytes) if old else ""),
        _changed(f"{most}{row.blocks_per_sm}", str(old.blocks_per_sm) if old else ""),
        _changed(f"{most}{100 * row.occupancy:.0f} %", f"{100 * old.occupancy:.0f} %" if old else ""),
        _changed(f"{row.waves:.2f}", f"{old.waves:.2f}" if old else ""),
        row.limiter if row.blocks_per_sm else _failed(f"{row.limiter}: no block fits"),
    )  # fmt: skip


def _failed(why: str) -> Html:
    return Html(f'<span class="cg-failed">✗ {escape_html(why)}</span>')


def _changed(now: str, before: str) -> Html:
    """Write a number, with the tested one where it differs."""
    was = f' <span class="cg-was">was {escape_html(before)}</span>' if before and before != now else ""
    return Html(f"{escape_html(now)}{was}")


def _rests_on(launch: PlannedLaunch) -> str:
    if launch.compiled is None:
        return (
            f"{launch.occupancy.kernel} is not compiled yet: its registers and static shared memory are unknown, so "
            "occupancy is an upper bound."
        )
    spent = f"{launch.compiled.registers} registers and {launch.compiled.smem_static_bytes} B of static shared memory"
    return f"{launch.compiled.kernel}: {spent} as last compiled; the edit may change them."
