"""A kernel file of a serving kernel: a template that is the whole file, filled in with names and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen_core.propose.playbook.writing import render


@dataclass(frozen=True)
class ServingLevel:
    """An entry of the menu.

    Attributes:
        template: file in `templates/`.
        values: what the template takes besides `idea`, `name` and `level`.
    """

    name: str
    idea: str
    template: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class ServingVariant:
    """A kernel file with its name in the menu."""

    name: str
    idea: str
    source: str


def write(level: ServingLevel, kernel: str) -> ServingVariant:
    """Write the kernel file of one level; `kernel` is the kernel's name in it."""
    source = render(level.template, idea=level.idea, name=kernel, level=level.name, **level.values)
    return ServingVariant(level.name, level.idea, source)
