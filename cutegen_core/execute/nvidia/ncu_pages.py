"""Read Nsight Compute's CSV pages: the chosen metrics, the advice of its rules, samples by instruction.

Written for version 2025.3. Metrics and sections are found by name, so an added or missing column does no harm; a
metric that a version or a chip does not have is left out. https://docs.nvidia.com/nsight-compute/ProfilingGuide/
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cutegen_core.records.performance import LineCost, Metric

MAX_ADVICE, MAX_STALLS, MAX_SENTENCES = 5, 3, 2


class ChosenMetric(NamedTuple):
    """One metric we show: its name and unit here, ncu's name, and the factor from ncu's base unit to ours."""

    name: str
    unit: str
    source: str
    factor: float = 1.0


CHOSEN = (
    ChosenMetric("duration", "us", "gpu__time_duration.sum", 1e6),
    ChosenMetric("SM throughput", "%", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ChosenMetric("memory throughput", "%", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
    ChosenMetric("DRAM bandwidth", "GB/s", "dram__bytes.sum.per_second", 1e-9),
    ChosenMetric("DRAM throughput", "%", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    ChosenMetric("DRAM read", "MB", "dram__bytes_read.sum", 1e-6),
    ChosenMetric("DRAM written", "MB", "dram__bytes_write.sum", 1e-6),
    ChosenMetric("L1 hit rate", "%", "l1tex__t_sector_hit_rate.pct"),
    ChosenMetric("L2 hit rate", "%", "lts__t_sector_hit_rate.pct"),
    ChosenMetric("achieved occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ChosenMetric("registers", "per thread", "launch__registers_per_thread"),
    ChosenMetric("issue slots busy", "%", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    ChosenMetric("eligible warps", "per scheduler", "smsp__warps_eligible.avg.per_cycle_active"),
    ChosenMetric("tensor pipe active", "%", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    ChosenMetric(
        "bytes used per 32 B sector, loads", "", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
    ),
    ChosenMetric(
        "bytes used per 32 B sector, stores", "", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"
    ),
)
SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "Occupancy", "LaunchStats",
    "SchedulerStats", "WarpStateStats", "ComputeWorkloadAnalysis", "SourceCounters",
)  # fmt: skip
"""Sections to collect; they contain every metric of CHOSEN and every rule whose advice is worth reading."""

_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio$")
_NO_STALL = ("selected", "not_selected")
_WORDS = {
    "barrier": "block barrier", "branch_resolving": "branch", "dispatch": "dispatch", "dispatch_stall": "dispatch",
    "drain": "stores to drain", "gmma": "wgmma", "warpgroup_arrive": "wgmma", "imc": "constant cache",
    "imc_miss": "constant cache", "lg": "global and local memory queue", "lg_throttle": "global and local memory queue",
    "long_sb": "global or local memory", "long_scoreboard": "global or local memory", "math": "arithmetic pipe",
    "math_pipe_throttle": "arithmetic pipe", "membar": "memory fence", "mio": "shared memory queue",
    "mio_throttle": "shared memory queue", "misc": "other", "no_inst": "instruction fetch",
    "no_instruction": "instruction fetch", "short_sb": "shared memory or special function",
    "short_scoreboard": "shared memory or special function", "sleep": "sleep", "sleeping": "sleep",
    "tex": "texture queue", "tex_throttle": "texture queue", "wait": "fixed latency",
}  # fmt: skip
_SCALES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"^([numKMGT])?(s|second|byte|hz)(?:/(s|second|ns|us))?$", re.IGNORECASE)
_PER = {"": 1.0, "s": 1.0, "second": 1.0, "us": 1e-6, "ns": 1e-9}
_DULL_RULES = ("HighPipeUtilization",)


class ProfiledLaunch(NamedTuple):
    """One profiled launch: its mangled kernel name and the values of all metrics in base units."""

    id: str
    kernel: str
    values: Mapping[str, float]


def read_raw_page(text: str) -> tuple[ProfiledLaunch, ...]:
    """Read the launches of `--page raw --csv`; skips lines before the header (ncu's own messages)."""
    rows = _read_table(text, '"ID"')
    if len(rows) < 2:
        return ()
    names, units = rows[0], rows[1]
    return tuple(
        ProfiledLaunch(row[names.index("ID")], row[names.index("Kernel Name")], dict(_read_values(names, units, row)))
        for row in rows[2:]
    )


def choose_metrics(row: ProfiledLaunch) -> tuple[Metric, ...]:
    """Return the chosen metrics that this launch has, then the main reasons why its warps waited."""
    found = [Metric(c.name, row.values[c.source] * c.factor, c.unit) for c in CHOSEN if c.source in row.values]
    wavefronts = row.values.get(_WAVEFRONTS, 0.0)
    if wavefronts:
        share = 100.0 * row.values.get(_CONFLICTS, 0.0) / wavefronts
        found.append(Metric("shared memory cycles lost to bank conflicts", share, "%"))
    return (*found, *_find_stalls(row.values))


def read_advice(text: str) -> Mapping[str, tuple[str, ...]]:
    """Read the advice of `--page details --csv`: launch id -> suggestions, those with the largest gain first."""
    rows = _read_table(text, '"ID"')
    if not rows:
        return {}
    found: dict[str, list[tuple[float, str]]] = {}
    for cells in rows[1:]:
        row = dict(zip(rows[0], cells, strict=False))
        if row.get("Rule Type") == "OPT" and row["Rule Name"] not in _DULL_RULES:
            found.setdefault(row["ID"], []).append((_rank_advice(row), _shorten_advice(row)))
    return {
        launch: tuple(dict.fromkeys(sentence for _, sentence in sorted(entries, key=lambda e: -e[0])))[:MAX_ADVICE]
        for launch, entries in found.items()
    }


def read_line_costs(text: str, line_of: Callable[[str, int], int]) -> tuple[tuple[LineCost, ...], ...]:
    """Read the samples of each launch by line of the kernel file, the most expensive line first.

    Args:
        text: output of `--page source --csv --print-source sass`, with mangled kernel names.
        line_of: mangled kernel name and byte offset of an instruction -> line, 0 if unknown.
    """
    listings = list(_split_listings(text))
    # Version 2025.3 prints every listing twice; two launches never collect exactly the same samples.
    kept = [each for k, each in enumerate(listings) if k % 2 == 0 or each != listings[k - 1]]
    return tuple(_sum_by_line(kernel, rows, line_of) for kernel, rows in kept)


def _read_table(text: str, first: str) -> list[list[str]]:
    lines = text.splitlines(keepends=True)
    start = next((k for k, line in enumerate(lines) if line.startswith(first)), len(lines))
    return [row for row in csv.reader(lines[start:]) if row]


def _read_values(names: Sequence[str], units: Sequence[str], row: Sequence[str]) -> Iterator[tuple[str, float]]:
    for name, unit, cell in zip(names, units, row, strict=False):
        try:
            yield name, float(cell.replace(",", "")) * _scale(unit)
        except ValueError:
            continue  # text, or "no data"


def _scale(unit: str) -> float:
    """Return the factor from a unit ("Gbyte/s", "ms", "byte/ns") to bytes and seconds; 1 for other units."""
    found = _SCALED.match(unit)
    if not found:
        return 1.0
    return _SCALES.get(found[1] or "", 1.0) / _PER[(found[3] or "").lower()]


def _find_stalls(values: Mapping[str, float]) -> Iterator[Metric]:
    cycles = {m[1]: value for name, value in values.items() if (m := _STALL.match(name))}
    total = sum(cycles.values())
    waiting = sorted(((v, k) for k, v in cycles.items() if k not in _NO_STALL and v > 0.0), reverse=True)
    for value, key in waiting[:MAX_STALLS]:
        yield Metric(f"warps wait for {_WORDS.get(key, key.replace('_', ' '))}", 100.0 * value / total, "%")


def _rank_advice(row: Mapping[str, str]) -> float:
    """Return a sort key: speedups of the whole kernel, then advice without a number, then speedups of a part."""
    try:
        speedup = float(row["Estimated Speedup"])
    except ValueError:
        return 0.0
    return speedup if row["Estimated Speedup Type"] == "global" else speedup - 1000.0


def _shorten_advice(row: Mapping[str, str]) -> str:
    text = re.sub(r"\s*\(https?://[^)]*\)|@url:[^@]*@", "", row["Rule Description"])
    text = re.sub(r"(?<=[a-z])\.(?=[A-Z])", ". ", text)
    kept = [
        s
        for s in re.split(r"(?<=[.:])\s+(?=[A-Z])", text)
        if not re.match(r"Check the|See the|Start by|The CUDA .* Guide", s)
    ]
    promised = row["Estimated Speedup"] and row["Estimated Speedup Type"] == "global"
    ending = f" (estimated gain {float(row['Estimated Speedup']):.0f} %)" if promised else ""
    return " ".join(kept[:MAX_SENTENCES]).strip() + ending


def _split_listings(text: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield kernel name and instruction rows of each launch."""
    kernel, names, rows = "", [""], list[dict[str, str]]()
    for cells in csv.reader(text.splitlines()):
        if cells[:1] == ["Kernel Name"]:
            if kernel:
                yield kernel, rows
            kernel, rows = cells[1], []
        elif cells[:1] == ["Address"]:
            names = cells
        elif kernel and len(cells) == len(names):
            rows.append(dict(zip(names, cells, strict=True)))
    if kernel:
        yield kernel, rows


def _sum_by_line(
    kernel: str, rows: Sequence[Mapping[str, str]], line_of: Callable[[str, int], int]
) -> tuple[LineCost, ...]:
    samples: Counter[int] = Counter()
    stalls: dict[int, Counter[str]] = {}
    base = int(rows[0]["Address"], 0) if rows else 0
    for row in rows:
        line = line_of(kernel, int(row["Address"], 0) - base)
        if line:
            samples[line] += _read_count(row.get("# Samples", "0"))
            for name, cell in row.items():
                if name.startswith("stall_") and "(" not in name and name[6:] not in _NO_STALL:
                    stalls.setdefault(line, Counter())[name[6:]] += _read_count(cell)
    return tuple(
        LineCost(line, n, _name_main_stall(stalls.get(line, Counter()))) for line, n in samples.most_common() if n
    )


def _name_main_stall(stalls: Counter[str]) -> str:
    name, count = stalls.most_common(1)[0] if stalls else ("", 0)
    return _WORDS.get(name, name) if count else ""


def _read_count(cell: str) -> int:
    return int(cell.replace(",", "")) if cell.replace(",", "").isdigit() else 0
