"""Right kernels written to files, with their problems: the honest controls, and what mistakes are made in.

Those of `tests/data/kernels` with the problems that the cross-check gives them, and the straightforward ones of
`mistakes/kernels`, each for the built-in problem of its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.crosscheck.corpus import KERNELS, WRITTEN
from cutegen_core.problems import library
from cutegen_core.records.problem import Problem, WorkloadRole

STRAIGHTFORWARD = Path(__file__).parent / "mistakes" / "kernels"
_FOR_BUILT_IN_PROBLEMS = ("swish",)
"""Files of `tests/data/kernels` that the cross-check leaves out, named as their problems."""


@dataclass(frozen=True)
class RightKernel:
    """One file.

    Attributes:
        problem: key of `PROBLEMS`.
    """

    name: str
    source: str
    problem: str


def _key(problem: str) -> str:
    return f"right/{problem}"


def _kernels() -> Iterator[RightKernel]:
    for name, entry in WRITTEN.items():
        text = (KERNELS / f"{name}.cu").read_text()
        yield RightKernel(name, text, _key(entry.problem or name))
    for name in _FOR_BUILT_IN_PROBLEMS:
        yield RightKernel(name, (KERNELS / f"{name}.cu").read_text(), _key(name))
    for path in sorted(STRAIGHTFORWARD.glob("*.cu")):
        yield RightKernel(path.stem, path.read_text(), _key(path.stem))


def _problem(name: str) -> Problem:
    """Return the problem with what the emulator is asked about, and the benchmark."""
    own = [folder / f"{name}.py" for folder in (KERNELS, STRAIGHTFORWARD) if (folder / f"{name}.py").exists()]
    found = library.read_problem(own[0]) if own else library.load(name)
    return replace(found, workloads=found.with_role(WorkloadRole.EMULATOR, WorkloadRole.BENCHMARK))


RIGHT_KERNELS: Mapping[str, RightKernel] = {kernel.name: kernel for kernel in _kernels()}
PROBLEMS: Mapping[str, Problem] = {
    key: _problem(key.removeprefix(_key(""))) for key in sorted({kernel.problem for kernel in RIGHT_KERNELS.values()})
}
