"""Name sets of problems: parts of the catalogue, and parts of a KernelBench checkout, which a person has on disk.

`resolve` turns a name or a folder into names and paths that `library.load` knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cutegen_core.problems import library
from cutegen_core.records.errors import UsageError


class ProblemSet(NamedTuple):
    """A named set.

    Attributes:
        level: folder of the checkout that holds the files, "" for problems of the catalogue.
        parts: folders of the catalogue, or numbers that file names of the checkout begin with; empty for all.
    """

    title: str
    level: str
    parts: tuple[str, ...] = ()


def _numbers(*numbers: int) -> tuple[str, ...]:
    return tuple(map(str, numbers))


SETS: Mapping[str, ProblemSet] = {
    "built-in": ProblemSet("every built-in problem", ""),
    "astra": ProblemSet("kernels of serving engines, those of Astra among them", "", ("serving",)),
    "gradients": ProblemSet("backward passes of activations, norms, softmax and losses", "", ("gradients",)),
    "gnn": ProblemSet("kernels of graph neural networks", "", ("gather",)),
    "level1": ProblemSet("KernelBench level 1", "level1"),
    "level2": ProblemSet("KernelBench level 2", "level2"),
    "level3": ProblemSet("KernelBench level 3", "level3"),
    "activations": ProblemSet("the 14 activations of KernelBench level 1", "level1", _numbers(*range(19, 33))),
    "cutegen-19": ProblemSet(
        "CuTeGen's public runs on KernelBench level 1, as far as the checkout has their files", "level1",
        _numbers(1, 4, 9, 21, 22, 33, 40, 49, 53, 54, 55, 58, 59, 80, 83, 88, 99, 102, 103),
    ),
}  # fmt: skip


def resolve(name_or_folder: str, checkout: Path | None = None) -> tuple[str, ...]:
    """Return the problems of a set, in their natural order.

    Args:
        checkout: a KernelBench checkout, or its folder with level1, level2 ...

    Raises:
        UsageError: no such set or folder, or nothing in it.
    """
    known = SETS.get(name_or_folder)
    if known is None:
        return _files(_folder(name_or_folder))
    if not known.level:
        files = library.built_in_files()
        return tuple(name for name, path in files.items() if not known.parts or path.parent.name in known.parts)
    if checkout is None:
        raise UsageError(
            f"the set {name_or_folder} is a part of KernelBench: name your checkout with --checkout FOLDER."
        )
    return _files(_level(checkout, known.level), known.parts)


def _folder(text: str) -> Path:
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise UsageError(f"{text!r} is neither a set ({', '.join(SETS)}) nor a folder.")
    return folder


def _level(checkout: Path, level: str) -> Path:
    """Return the level's folder, wherever a checkout has it."""
    places = (checkout / level, checkout / "KernelBench" / level)
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise UsageError(f"{checkout} is no KernelBench checkout: neither {level} nor KernelBench/{level} is in it.")
    return found


def _files(folder: Path, numbers: tuple[str, ...] = ()) -> tuple[str, ...]:
    files = [p for p in folder.rglob("*.py") if not any(part[0] in "._" for part in p.relative_to(folder).parts)]
    chosen = [str(p.absolute()) for p in files if not numbers or p.name.partition("_")[0] in numbers]
    if not chosen:
        raise UsageError(f"{folder} holds no problem file (.py).")
    return tuple(sorted(chosen, key=_natural))


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort 2_x before 10_x."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]
