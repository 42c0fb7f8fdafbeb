"""Problems whose trials take few runs, for tests of what happens around a trial.

The judge is the whole one: two poisons, two thread orders, the checked run, every kind of values. Only sizes are fewer:
a built-in problem takes 44 runs and more, four of them of a million elements, one of these 23 small ones.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from cutegen_core.problems import library
from cutegen_core.records.problem import Problem, WorkloadRole
from tests.places import ROOT

SMALL = "ragged"
"""The workload that stays: its sizes are odd, and below 8192 elements."""
_WORKLOADS = re.compile(r"^WORKLOADS = \{\n(?:.*\n)*?\}\n", re.MULTILINE)
_VALUES = re.compile(r", values = \[[^\]]*\]")


def few_runs(name: str) -> Problem:
    """Return a built-in problem with one small workload, and with benchmarks of its sizes."""
    problem = library.load(name)
    small = next(workload for workload in problem.workloads if workload.name == SMALL)
    benchmarks = [replace(one, sizes=small.sizes) for one in problem.with_role(WorkloadRole.BENCHMARK)]
    return replace(problem, workloads=(small, *benchmarks))


def few_runs_file(name: str, folder: Path, called: str = "") -> Path:
    """Write the same as a problem file, for a process of its own; it has the built-in problem's name by default."""
    (built_in,) = (ROOT / "cutegen_core/problems/catalogue").rglob(f"{name}.py")
    text, small = built_in.read_text(), next(w for w in library.load(name).workloads if w.name == SMALL)
    literal = {SMALL: {"role": "emulator", **small.sizes}}
    text, found = _WORKLOADS.subn(f"WORKLOADS = {literal!r}\n", text)
    assert found == 1
    for size, value in small.sizes.items():
        text, found = re.subn(rf"^{size} = .*$", f"{size} = {value!r}", text, flags=re.MULTILINE)
        assert found == 1
    path = folder / f"{called or name}.py"
    path.write_text(text)
    return path


def one_value(source: str) -> str:
    """Return a kernel file whose parameters have their defaults alone: a model's session sweeps nothing at its end."""
    return _VALUES.sub("", source)
