"""A kernel file of a serving kernel: a template that is the whole file, filled in with names and types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen_core.propose.playbook.variants import Variant
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


def write(level: ServingLevel, kernel: str) -> Variant:
    """Write the kernel file of one level; `kernel` is the kernel's name in it."""
    source = render(level.template, idea=level.idea, name=kernel, level=level.name, **level.values)
    return Variant(level.name, level.idea, source)
