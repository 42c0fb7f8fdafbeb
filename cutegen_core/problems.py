"""Problems by name or path: the built-in catalogue, and any file or folder in KernelBench's shape.

1. The file is parsed, never run: WORKLOADS, TOLERANCE, ALLOW, COMPULSORY and TITLE are module-level literals.
2. A file without WORKLOADS gets them derived from its sizes; each reduction is tried on fake tensors in the sandboxed
   reference worker (`reduction`), which also finds out whether the file loads at all.
3. What cannot be loaded or reduced raises ProblemError with the reason; a folder reports one entry per file.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from cutegen_core.errors import ProblemError, UsageError
from cutegen_core.judge import problem_source
from cutegen_core.judge.problem_source import SizeSlot, SizeValue
from cutegen_core.judge.reference import Limits, ask, start_worker
from cutegen_core.problem import DEFAULT_TOLERANCE, Problem, Tolerance, Values, Workload, WorkloadRole

BUILT_IN = "built-in"
_CATALOGUE = Path(__file__).parent / "catalogue"
_LARGEST_FILE_BYTES = 1 << 20
_WORKLOAD_WORDS = ("role", "values")


@cache
def catalogue() -> tuple[Problem, ...]:
    """The built-in problems, by name."""
    files = sorted(p for p in _CATALOGUE.glob("*.py") if p.name != "__init__.py")
    return tuple(read_problem(path, BUILT_IN) for path in files)


def read_problem(path: Path, origin: str = "") -> Problem:
    """The static part of a problem; `workloads` is empty when the file has no WORKLOADS.

    Raises:
        ProblemError: unreadable, not Python, not KernelBench's shape, or a malformed WORKLOADS, TOLERANCE, ALLOW.
    """
    source = _read(path)
    where = str(path)
    tree = problem_source.parse(source, where)
    literals = _Literals(tree, where)
    workloads = literals.workloads(problem_source.size_slots(tree))
    literals.check_compulsory()
    title = literals.title() or problem_source.docstring(tree) or path.stem.replace("_", " ")
    return Problem(path.stem, title, source, origin or where, workloads, literals.tolerance(), literals.allow())


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise ProblemError(f"{path}: larger than 1 MiB, which no reference is.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: not UTF-8 text (byte {error.start}).") from error


class _Literals:
    """Reads the module-level literals a problem may carry, with file and line in every complaint."""

    def __init__(self, tree: ast.Module, origin: str) -> None:
        self._tree, self._origin = tree, origin
        self._line = 0

    def title(self) -> str:
        value = self._value("TITLE", str)
        return value.strip() if value else ""

    def allow(self) -> tuple[str, ...]:
        value = self._value("ALLOW", (tuple, list)) or ()
        if not all(isinstance(item, str) for item in value):
            raise self._wrong('ALLOW is a tuple of words such as ("tf32",)')
        return tuple(value)

    def check_compulsory(self) -> None:
        """COMPULSORY is evaluated where bounds are made (`measurement.work`); here a wrong form is found early."""
        given = self._value("COMPULSORY", dict)
        numbers = all(isinstance(v, int | float | str) and not isinstance(v, bool) for v in (given or {}).values())
        if given is not None and (not given or set(given) - {"bytes", "flops"} or not numbers):
            raise self._wrong(
                'COMPULSORY has "bytes", "flops" or both: numbers, or expressions over the sizes as texts'
            )

    def tolerance(self) -> Mapping[str, Tolerance]:
        given = self._value("TOLERANCE", dict) or {}
        return {dtype: self._tolerance(dtype, entry) for dtype, entry in given.items()}

    def workloads(self, slots: Mapping[str, SizeSlot]) -> tuple[Workload, ...]:
        given = self._value("WORKLOADS", dict)
        if given is None:
            return ()
        found = [self._workload(name, entry, slots) for name, entry in given.items()]
        if not any(w.role is WorkloadRole.BENCHMARK for w in found):
            found.append(Workload("benchmark", WorkloadRole.BENCHMARK))
        return tuple(found)

    def _workload(self, name: object, entry: object, slots: Mapping[str, SizeSlot]) -> Workload:
        if not isinstance(name, str) or not isinstance(entry, dict):
            raise self._wrong('WORKLOADS maps a name to a dict such as {"role": "emulator", "N": 64}')
        sizes = {k: v for k, v in entry.items() if k not in _WORKLOAD_WORDS}
        for size, value in sizes.items():
            self._check_size(name, size, value, slots)
        try:
            role = WorkloadRole(str(entry.get("role")))
            values = Values(str(entry.get("values", "given")))
        except ValueError as error:
            known = f"roles: {_words(WorkloadRole)}; values: {_words(Values)}"
            raise self._wrong(f"workload {name!r}: {error}; {known}") from error
        return Workload(name, role, sizes, values)

    def _check_size(self, workload: str, name: object, value: object, slots: Mapping[str, SizeSlot]) -> None:
        slot = slots.get(name) if isinstance(name, str) else None
        if slot is None:
            known = ", ".join(n for n in slots if "#" not in n) or "none"
            raise self._wrong(f"workload {workload!r} sets {name!r}, which is no size of this file (sizes: {known})")
        if not _same_kind(slot.value, value):
            raise self._wrong(f"workload {workload!r} sets {name} = {value!r}, but the file has {slot.value!r}")

    def _tolerance(self, dtype: object, entry: object) -> Tolerance:
        if dtype not in DEFAULT_TOLERANCE or not isinstance(entry, dict):
            raise self._wrong(f"TOLERANCE maps one of {', '.join(DEFAULT_TOLERANCE)} to a dict with atol and rtol")
        unknown = set(entry) - {"atol", "rtol", "error_multiple"}
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and v >= 0 for v in entry.values())
        if unknown or not numbers or not {"atol", "rtol"} <= set(entry):
            raise self._wrong(f"TOLERANCE[{dtype!r}] needs atol and rtol (and may have error_multiple), each >= 0")
        return Tolerance(**{k: float(v) for k, v in entry.items()})

    def _value(self, name: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401 - checked against `kind`
        found = problem_source.literal(self._tree, name, self._origin)
        if found is None:
            return None
        value, self._line = found
        if not isinstance(value, kind):
            raise self._wrong(f"{name} is a {type(value).__name__}, which it must not be")
        return value

    def _wrong(self, text: str) -> ProblemError:
        return ProblemError(f"{self._origin}:{self._line}: {text}.")


def _same_kind(original: SizeValue, value: object) -> bool:
    if isinstance(original, tuple):
        return isinstance(value, tuple) and len(value) == len(original) and all(type(v) is int for v in value)
    return type(value) is int or (isinstance(original, float) and type(value) is float)


def _words(kind: type[WorkloadRole] | type[Values]) -> str:
    return ", ".join(member.value for member in kind)


@dataclass(frozen=True)
class Entry:
    """One file of a folder: a problem, or the reason why it is none."""

    name: str
    path: Path
    problem: Problem | None
    error: str = ""


@dataclass(frozen=True)
class FolderListing:
    """A folder's files, with how many of them loaded."""

    entries: tuple[Entry, ...]

    @property
    def loaded(self) -> int:
        return sum(entry.problem is not None for entry in self.entries)

    @property
    def total(self) -> int:
        return len(self.entries)


class Loader:
    """Loads files; one sandboxed worker, which imports torch once, forks for every file that must be run.

    Args:
        limits: for one file.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits(seconds=60.0)
        self._scratch = tempfile.TemporaryDirectory(prefix="cutegen-problems-")
        self.worker = start_worker(Path(self._scratch.name), self._limits, forks=True)

    def load(self, path: Path) -> Problem:
        """A problem with workloads; ProblemError with the reason when it has none and none can be found."""
        problem = read_problem(path.absolute())
        if problem.workloads:
            return problem
        payload = {"operation": "derive", "source": problem.source, "origin": problem.origin}
        found = ask(self.worker, payload, self._limits.seconds)["workloads"]
        return replace(problem, workloads=tuple(_workload_from(w) for w in found))

    def close(self) -> None:
        self.worker.close()
        self._scratch.cleanup()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(name_or_path: str) -> Problem:
    """A built-in problem by name, or a file by path.

    Raises:
        UsageError: no such name and no such file.
        ProblemError: the file cannot be loaded or reduced.
    """
    named = {problem.name: problem for problem in catalogue()}
    if name_or_path in named:
        return named[name_or_path]
    path = Path(name_or_path).expanduser()
    if not path.is_file():
        raise UsageError(f"{name_or_path!r} is neither a built-in problem ({', '.join(named)}) nor a file.")
    with Loader() as loader:
        return loader.load(path)


def load_folder(path: Path, progress: Callable[[str], None] = lambda line: None) -> FolderListing:
    """Every .py file below a folder, by path; files and folders beginning with "_" or "." are left out.

    Args:
        progress: called with a line before each file.

    Raises:
        UsageError: no such folder.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder.")
    files = [p for p in sorted(path.rglob("*.py")) if not any(part[0] in "._" for part in p.relative_to(path).parts)]
    entries = []
    with Loader() as loader:
        for position, file in enumerate(files, 1):
            progress(f"{position} of {len(files)}: {file.name}")
            entries.append(_entry(loader, file))
    return FolderListing(tuple(entries))


def load_path(path: Path, progress: Callable[[str], None] = lambda line: None) -> FolderListing:
    """A file or a folder as a listing; UsageError when there is neither."""
    if path.is_dir():
        return load_folder(path, progress)
    if not path.is_file():
        raise UsageError(f"{path} is neither a file nor a folder.")
    with Loader() as loader:
        return FolderListing((_entry(loader, path),))


def built_in() -> FolderListing:
    """The catalogue as a listing."""
    return FolderListing(tuple(Entry(p.name, Path(p.origin), p) for p in catalogue()))


def _entry(loader: Loader, path: Path) -> Entry:
    try:
        return Entry(path.stem, path, loader.load(path))
    except ProblemError as error:
        return Entry(path.stem, path, None, str(error))


def _workload_from(data: Mapping[str, Any]) -> Workload:
    sizes = {name: tuple(v) if isinstance(v, list) else v for name, v in data["sizes"].items()}
    return Workload(data["name"], WorkloadRole(data["role"]), sizes, Values(data["values"]))
