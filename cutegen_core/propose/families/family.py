"""A family of problems is a folder beside this file: `family.toml`, and `exemplar.cu` where there is one.

1. `load` reads every folder. What a file says is checked: its words, its operations, and that no two families claim the
   same operation.
2. `registered` are those of the package. `classify` finds the one of a graph.

A new folder is a new family; nothing else has a list of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from cutegen_core.records import operations as ops
from cutegen_core.records.errors import UsageError
from cutegen_core.records.graph import Node
from cutegen_core.records.operations import OPERATIONS, VIEWS, Flow

FOLDER = Path(__file__).parent
_FILE, _EXEMPLAR = "family.toml", "exemplar.cu"
_LIGHT = VIEWS | {
    Flow.INPUT, Flow.CREATION, Flow.POINTWISE, Flow.CHANNELWISE, Flow.COPY, Flow.DIAGONAL, Flow.TRIANGLE, Flow.JOIN,
    Flow.MOVE, Flow.EXPANSION,
}  # fmt: skip
"""Flows that any kernel has on its way: what one element costs, and where it lies."""


TRAITS = (
    "product", "halves", "float32 products", "skinny", "square", "few tiles", "last dimension", "inner dimension",
    "few long rows", "algebra", "epilogue", "reduction after", "attention", "rows of softmax", "depthwise",
    "dense convolution", "pooling", "several operations", "special functions", "permuted",
)  # fmt: skip
"""What an item of a menu may need of a problem; `prompting.offers` finds what is true. Tensor cores take products of
"halves" as they are."""


class Otherwise(StrEnum):
    """Graphs that no operation decides: each is one family's."""

    NOTHING_HEAVY = "nothing heavy"
    """No family claims any of its operations."""
    SEVERAL = "several"
    """Several families claim some, and none of these is a product."""
    UNCLAIMED = "unclaimed"
    """A heavy operation that no family claims, or one that nothing is known of; or there is no graph."""


@dataclass(frozen=True)
class MenuItem:
    """One idea.

    Attributes:
        kind: structure comes first; parameters are for the sweep.
        arch: the first architecture that has what it needs, "" for all.
        needs: what must be true of the problem, of `TRAITS`.
        done: a regular expression; a kernel whose code it matches does this already.
        around: it is about what stands around a heavy operation, and is offered for every chain.
    """

    key: str
    kind: Literal["structure", "parameter"]
    text: str
    arch: str = ""
    needs: tuple[str, ...] = ()
    done: str = ""
    around: bool = False

    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Family:
    """One family, as its `family.toml` has it.

    Attributes:
        name: the workload class in prompts.
        bound: what such a kernel runs into first.
        menu: ideas in the order that usually pays.
        flows, operations: what it claims; a named operation goes before a flow.
        beside: names of families whose operations may stand beside its own.
        otherwise: the graphs it takes that no operation decides.
        exemplar_of: the family whose exemplar is shown for this one, too.
        exemplar_solves: the built-in problem that the exemplar beside the file passes; the tests run it.
        exemplar: text of a kernel file that passes here, "" when there is none; read from the file beside.
    """

    name: str
    bound: str
    menu: tuple[MenuItem, ...]
    flows: tuple[Flow, ...] = ()
    operations: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    otherwise: Otherwise | None = None
    exemplar_of: str = ""
    exemplar_solves: str = ""
    exemplar: str = ""

    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Families:
    """All families of a folder, by name."""

    families: tuple[Family, ...]

    def claiming(self, node: Node) -> Family | None:
        """Find the family of an operation; None for a light one that no family claims."""
        traits, name = ops.traits(node), ops.name(node)
        as_listed = OPERATIONS.get(name) == traits
        for family in self.families:
            if as_listed and name in family.operations:
                return family
        for family in self.families:
            if traits.flow in family.flows:
                return family
        return None if traits.flow in _LIGHT else self.otherwise(Otherwise.UNCLAIMED)

    def otherwise(self, graphs: Otherwise) -> Family:
        """Find the family of graphs that no operation decides."""
        return next(family for family in self.families if family.otherwise is graphs)


@cache
def registered() -> Families:
    """Give the families of the package."""
    return load(FOLDER)


def load(folder: Path) -> Families:
    """Read every family below a folder.

    Raises:
        UsageError: a file says what it cannot; the text names the file.
    """
    files = sorted(folder.glob(f"*/{_FILE}"))
    read = {path: _read(path) for path in files}
    for path, family in read.items():
        others = [(p, f) for p, f in read.items() if p != path]
        for problem in (*_wrong(family, tuple(f.name for _, f in others)), *_claimed(family, others)):
            raise UsageError(f"{path}: {problem}.")
    missing = [kind.value for kind in Otherwise if not any(f.otherwise is kind for f in read.values())]
    if missing:
        raise UsageError(f"{folder}: no family has otherwise = {missing[0]!r}.")
    own = {family.name: family.exemplar for family in read.values()}
    return Families(tuple(replace(f, exemplar=f.exemplar or own.get(f.exemplar_of, "")) for f in read.values()))


def _read(path: Path) -> Family:
    exemplar = path.with_name(_EXEMPLAR)
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text())
        if "exemplar" in data:
            raise UsageError(f"{path}: exemplar: it is the file {_EXEMPLAR} next to this one.")
        family = TypeAdapter(Family).validate_python(data)
        if bool(family.exemplar_solves) is not exemplar.exists():
            raise UsageError(f"{path}: exemplar_solves names the problem that {_EXEMPLAR} next to it passes.")
        return replace(family, exemplar=exemplar.read_text()) if exemplar.exists() else family
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}.") from error


def _wrong(family: Family, others: Sequence[str]) -> Iterator[str]:
    """Say what does not fit in one family's file."""
    yield from (f"{name!r} is no operation of the table" for name in family.operations if name not in OPERATIONS)
    yield from (f"beside names {name!r}, which is no other family" for name in family.beside if name not in others)
    needed = (word for item in family.menu for word in item.needs)
    yield from (f"{word!r} is no trait of a problem" for word in needed if word not in TRAITS)
    if family.exemplar_of and family.exemplar_of not in others:
        yield f"exemplar_of names {family.exemplar_of!r}, which is no other family"
    if not (family.flows or family.operations or family.otherwise):
        yield "it claims nothing: give it flows, operations or otherwise"
    if not family.menu:
        yield "its menu is empty"


def _claimed(family: Family, others: Sequence[tuple[Path, Family]]) -> Iterator[str]:
    """Say what another family claims as well."""
    for path, other in others:
        both = [
            *(name for name in (family.name,) if name == other.name),
            *(name for name in family.operations if name in other.operations),
            *(flow for flow in family.flows if flow in other.flows),
            *(kind for kind in (family.otherwise,) if kind is not None and kind is other.otherwise),
        ]
        yield from (f"{what!s} is claimed by {path}, too" for what in both)


def menu(family: Family, arch: str) -> tuple[MenuItem, ...]:
    """Give the ideas for a family that the architecture can carry out, in order."""
    return tuple(item for item in family.menu if _arch_number(item.arch) <= _arch_number(arch))


def _arch_number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)
