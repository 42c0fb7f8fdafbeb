"""Word what a kernel costs: registers, spills, shared memory, instructions, occupancy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cutegen_core.records.evidence import Remark, Section, Tone, Topic
from cutegen_core.records.performance import KernelEstimate
from cutegen_core.records.trial import KernelResources, Occupancy, Resources
from cutegen_core.records.wording import counted, dims, micros

_INSTRUCTIONS = 12
WORTH_TELLING = 1.1
"""Times that shared memory is served more often than without bank conflicts."""


def resources(found: Resources | None, before: Resources | None = None) -> tuple[Section, ...]:
    """List what the compiler spent on each kernel.

    Args:
        before: of the kernel that this one was made from; its registers are named where they differ.
    """
    if found is None:
        return ()
    remarks = tuple(_kernel(kernel, _same(kernel, found, before), _lost(kernel, found)) for kernel in found.kernels)
    columns = ("kernel", "registers", "spilled, B", "static shared memory, B")
    return (Section(Topic.RESOURCES, f"Resources on {found.arch}", remarks, columns=columns),)


def _same(kernel: KernelResources, found: Resources, before: Resources | None) -> KernelResources | None:
    """Return the kernel's counterpart: the one of its name, or the only one where each file has only one."""
    if before is None:
        return None
    alone = before.kernels[0] if len(before.kernels) == len(found.kernels) == 1 else None
    return next((k for k in before.kernels if k.kernel == kernel.kernel), alone)


def _kernel(kernel: KernelResources, before: KernelResources | None, lost: tuple[str, ...]) -> Remark:
    spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
    was = f" (was {before.registers})" if before and before.registers != kernel.registers else ""
    mix = sorted(kernel.instruction_mix.items(), key=lambda item: -item[1])[:_INSTRUCTIONS]
    instructions = ", ".join(f"{name} {count}" for name, count in mix)
    return Remark(
        f"{kernel.kernel}: {kernel.registers} registers a thread{was}, {spilled} B spilled, "
        f"{kernel.smem_static_bytes} B static shared memory",
        Tone.DOUBTFUL if spilled else Tone.PLAIN,
        cells=(kernel.kernel, str(kernel.registers), str(spilled), str(kernel.smem_static_bytes)),
        notes=(kernel.signature, *lost, *((f"SASS instructions: {instructions}",) if instructions else ())),
    )


def one_line(found: Resources, workloads: Sequence[str]) -> str:
    """Write what each kernel spends in one line, with the occupancy at the named workloads; without its instructions
    where none of these launches it.

    "scale<256>: 32 registers, 0 B spilled, 1024 B shared, occupancy 100 % (threads), 62.1 waves; FFMA 12"
    """
    return "\n".join(_in_one_line(kernel, found, workloads) for kernel in found.kernels)


def _in_one_line(kernel: KernelResources, found: Resources, workloads: Sequence[str]) -> str:
    spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
    rows = [row for row in found.occupancy if row.kernel == kernel.kernel and row.workload in workloads]
    shared = max((row.smem_bytes for row in rows), default=kernel.smem_static_bytes)
    held = [f"occupancy {100 * row.occupancy:.0f} % ({row.limiter}), {row.waves:.3g} waves" for row in rows[-1:]]
    mix = sorted(kernel.instruction_mix.items(), key=lambda item: -item[1])[:_INSTRUCTIONS]
    told = f"; SASS: {', '.join(f'{name} {count}' for name, count in mix)}" if mix and rows else ""
    parts = [f"{kernel.registers} registers", f"{spilled} B spilled", f"{shared} B shared"]
    parts += [*_lost(kernel, found), *held]
    return f"{kernel.kernel}: {', '.join(parts)}{told}"


def _lost(kernel: KernelResources, found: Resources) -> tuple[str, ...]:
    """Return "shared memory served 2.5x as often as needed (bank conflicts, most at line 31)" where that is known."""
    counted = [access for access in found.shared if access.kernel == kernel.kernel]
    return tuple(
        f"shared memory served {access.conflicts:.3g}x as often as needed (bank conflicts"
        f"{f', most at line {access.line}' if access.line else ''})"
        for access in counted
        if access.conflicts >= WORTH_TELLING
    )


def estimate_text(found: KernelEstimate) -> str:
    """Write an estimate: "estimate 4.11 ms, 50 % of the bound (memory 60.1 µs, arithmetic 4.11 ms)"."""
    share = f", {100 * found.share:.0f} % of the bound" if found.share else ""
    parts = f"memory {micros(found.memory_us)}, arithmetic {micros(found.arithmetic_us)}"
    return f"estimate {micros(found.us)}{share} ({parts}); a static model's, no time"


def occupancy(found: Resources | None) -> tuple[Section, ...]:
    """List the theoretical occupancy of every launch of every workload, equal ones once, and what limits it."""
    if found is None or not found.occupancy:
        return ()
    several = len({row.kernel for row in found.occupancy}) > 1
    remarks = tuple(_launch(row, several, count) for row, count in Counter(found.occupancy).items())
    columns = ("workload", "grid", "block", "smem B", "blocks/SM", "occupancy", "waves", "limited by")
    return (Section(Topic.OCCUPANCY, "Occupancy, theoretical", remarks, columns=columns),)


def _launch(row: Occupancy, several: bool, count: int) -> Remark:
    share = f"{100 * row.occupancy:.0f} %"
    times = f", {counted(count, 'launch')}" if count > 1 else ""
    return Remark(
        f"{row.workload}, {row.kernel}{times}: occupancy {share}, limited by {row.limiter}; "
        f"{row.blocks_per_sm} blocks per SM, {row.waves:.2f} waves",
        cells=(
            f"{row.workload}{f', {row.kernel}' if several else ''}{times}", dims(row.grid), dims(row.block),
            str(row.smem_bytes), str(row.blocks_per_sm), share, f"{row.waves:.2f}", row.limiter,
        ),
    )  # fmt: skip
