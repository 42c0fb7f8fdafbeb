"""Find and load problems by name or path: built-in ones, saved ones, any file or folder in KernelBench's form.

1. The file is parsed, never run (`read`): it describes itself in module-level literals.
2. For a file without WORKLOADS, they are derived from its sizes; the sandboxed reference worker tries each reduction on
   fake tensors (`reduction`), which also shows whether the file loads at all.
3. A file that cannot be loaded or reduced raises ProblemError with the reason; a folder gives one entry per file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from io import TextIOWrapper
from pathlib import Path

from cutegen_core.judge import problem_source, reference_answers
from cutegen_core.judge.problem_source import LONGEST_SOURCE
from cutegen_core.judge.reference import ReferenceLimits, ask_about_file, file_key, start_worker
from cutegen_core.machine.device import choose_device
from cutegen_core.machine.regular_file import open_regular
from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.problems import read, saved
from cutegen_core.records.errors import ProblemError, UsageError
from cutegen_core.records.problem import Problem

BUILT_IN = "built-in"
_CATALOGUE = Path(__file__).parent / "catalogue"
_LONGEST_SHOWN = 100


@cache
def catalogue() -> tuple[Problem, ...]:
    """Return the built-in problems, by name."""
    return tuple(_built_in(name) for name in built_in_files())


@cache
def built_in_files() -> Mapping[str, Path]:
    """Return the files of the built-in problems, by name."""
    return {path.stem: path for path in sorted(_CATALOGUE.rglob("*.py"))}


@cache
def _built_in(name: str) -> Problem:
    return read_problem(built_in_files()[name], BUILT_IN)


def read_problem(path: Path, origin: str = "") -> Problem:
    """Read the static part of a problem; `workloads` is empty if the file has no WORKLOADS.

    Raises:
        ProblemError: unreadable, not Python, not KernelBench's form, or a malformed WORKLOADS, TOLERANCE, ALLOW,
            EXISTING.
    """
    found, kernel = read.read_with_kernel(_read(path), path.stem, str(path))
    existing = _read(path.with_name(kernel)) if kernel else ""
    return replace(found, origin=origin or found.origin, existing=existing)


def _read(path: Path) -> str:
    try:
        str(path).encode()
        if path.stat().st_size > 4 * LONGEST_SOURCE:  # a character has at most four bytes
            raise ProblemError(f"{path}: larger than {LONGEST_SOURCE >> 10} KiB, which no reference is.")
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:  # some editors write a byte order mark
            return file.read()
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeEncodeError as error:
        raise ProblemError(f"{show_hidden(str(path))}: its name is not UTF-8 text; rename it.") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: not UTF-8 text (byte {error.start}).") from error


@dataclass(frozen=True)
class ProblemEntry:
    """One file of a folder: a problem, or the reason why it is none.

    Attributes:
        name: the file's stem; if another file has the same stem, its path below the folder without the ending.
    """

    name: str
    path: Path
    problem: Problem | None
    error: str = ""


@dataclass(frozen=True)
class FolderListing:
    """Files of a folder, loaded or not."""

    entries: tuple[ProblemEntry, ...]

    @property
    def loaded(self) -> int:
        return sum(entry.problem is not None for entry in self.entries)

    @property
    def total(self) -> int:
        return len(self.entries)


class Loader:
    """Loads files. One sandboxed worker imports torch once and gives every file a process.

    Args:
        limits: for one file.
        on_gpu: what is too large for the emulator is loaded, too; by default where there is a GPU.
    """

    def __init__(self, limits: ReferenceLimits | None = None, *, on_gpu: bool | None = None) -> None:
        self._limits = limits or ReferenceLimits(seconds=60.0)
        self._on_gpu = choose_device().present if on_gpu is None else on_gpu
        self._scratch = tempfile.TemporaryDirectory(prefix="cutegen-problems-")
        self.worker = start_worker(Path(self._scratch.name), self._limits)

    def load(self, path: Path) -> Problem:
        """Return the problem with its workloads.

        Raises:
            ProblemError: it has no workloads and none can be derived; the text gives the reason.
        """
        return self.complete(read_problem(path.absolute()))

    def complete(self, problem: Problem) -> Problem:
        """Return the problem with its own workloads, or with derived ones if it has none."""
        if problem.workloads:
            return problem
        payload = {
            "operation": "derive", "source": problem.source, "origin": problem.origin, "file": file_key(problem),
            "on_gpu": self._on_gpu,
        }  # fmt: skip
        slots = problem_source.find_size_slots(problem_source.parse(problem.source, problem.origin))
        found = ask_about_file(
            self.worker, payload, self._limits.seconds, lambda given: reference_answers.workloads(given, slots)
        )
        return replace(problem, workloads=found)

    def close(self) -> None:
        self.worker.close()
        self._scratch.cleanup()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(name_or_path: str, folder: Path = Path()) -> Problem:
    """Load a built-in or saved problem by name, or a file by path: a problem, or the existing kernel of one beside it.

    Args:
        folder: where a relative path begins.

    Raises:
        UsageError: no such name and no such file.
        ProblemError: the file cannot be loaded or reduced.
    """
    if name_or_path in built_in_files():
        return _built_in(name_or_path)
    path = saved.find(name_or_path) or _place_of(name_or_path, folder)
    if path.suffix == ".cu" and path.is_file():
        path = _problem_beside(path)
    if not path.is_file():
        known = ", ".join(built_in_files())
        raise UsageError(f"{name_or_path!r} is neither a built-in problem ({known}) nor a saved one nor a file.")
    with Loader() as loader:
        return loader.load(path)


def _problem_beside(kernel: Path) -> Path:
    """Return the problem file beside a kernel file, which names it as its existing kernel.

    Raises:
        UsageError: there is none, or it names another kernel.
    """
    path = kernel.with_suffix(".py")
    names = read.read_with_kernel(_read(path), path.stem, str(path))[1] if path.is_file() else None
    if names != kernel.name:
        what = "does not exist" if names is None else f"names {names}" if names else "has no EXISTING"
        raise UsageError(
            f"{kernel} is a kernel, which needs a problem to be judged by: {path.name} next to it {what}. "
            f'Write one with Model, get_inputs and EXISTING = "{kernel.name}" (docs/problems.md).'
        )
    return path


def _place_of(text: str, folder: Path = Path()) -> Path:
    """Return the path that a text names, whether something is there or not.

    Raises:
        UsageError: nothing can be there.
    """
    try:
        path = folder / Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, the home of an unknown user, a null character
        raise UsageError(f"{show_hidden(text[:_LONGEST_SHOWN])!r} cannot be a file or folder: {error}") from error
    return path


def list_files(folder: Path) -> Mapping[str, Path]:
    """Return every .py file below a folder, in the order of their paths, by the name of its entry.

    Files and folders that begin with "_" or "." are left out.

    Raises:
        UsageError: no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    inside = [p.relative_to(folder) for p in sorted(folder.rglob("*.py"))]
    files = [p for p in inside if not any(part[0] in "._" for part in p.parts)]
    stems = Counter(file.stem for file in files)
    return {f.stem if stems[f.stem] == 1 else f.with_suffix("").as_posix(): folder / f for f in files}


def load_folder(path: Path, progress: Callable[[str], None] = lambda line: None) -> FolderListing:
    """Load the files of a folder (`list_files`).

    Args:
        progress: called with a line before each file.

    Raises:
        UsageError: no such folder.
    """
    files = list_files(path)
    entries = []
    with Loader() as loader:
        for position, (name, file) in enumerate(files.items(), 1):
            progress(f"{position} of {len(files)}: {file.name}")
            entries.append(load_entry(loader, file, name))
    return FolderListing(tuple(entries))


def find(name_or_path: str) -> FolderListing:
    """Return one problem by name, or the files of a path; an entry that cannot be loaded gives the reason."""
    named = [entry for entry in list_known().entries if entry.name == name_or_path]
    return FolderListing((named[0],)) if named else load_path(_place_of(name_or_path))


def load_path(path: Path, progress: Callable[[str], None] = lambda line: None) -> FolderListing:
    """Return a file or a folder as a listing.

    Raises:
        UsageError: there is neither.
    """
    if path.is_dir():
        return load_folder(path, progress)
    if not path.is_file():
        raise UsageError(f"{path} is neither a file nor a folder.")
    with Loader() as loader:
        return FolderListing((load_entry(loader, path, path.stem),))


def list_built_in() -> FolderListing:
    """Return the catalogue as a listing."""
    return FolderListing(tuple(ProblemEntry(p.name, Path(p.origin), p) for p in catalogue()))


def list_known() -> FolderListing:
    """Return all problems with a name: those saved in the workspace, then the catalogue."""
    return FolderListing((*list_saved().entries, *list_built_in().entries))


def list_saved() -> FolderListing:
    """Return the problems saved in the workspace."""
    return load_folder(saved.folder()) if saved.folder().is_dir() else FolderListing(())


def load_entry(loader: Loader, path: Path, name: str) -> ProblemEntry:
    """Load a file as an entry of a listing; one that cannot be loaded gives the reason."""
    try:
        return ProblemEntry(name, path, loader.load(path))
    except ProblemError as error:
        return ProblemEntry(name, path, None, str(error))
