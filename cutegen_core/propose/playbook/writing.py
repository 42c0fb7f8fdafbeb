"""Write kernels as a kernel file: the launch plan, the helpers they use, the filled-in templates."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import jinja2

from cutegen_core.propose.playbook.kernels import RegionKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.pointwise import HELPERS
from cutegen_core.propose.playbook.regions import RegionScratch


@dataclass(frozen=True)
class ParameterText:
    """A tunable parameter of the plan."""

    name: str
    default: int
    values: tuple[int, ...]


MOST_POINTS = 4096
"""Combinations of values that a file may offer."""


def few_points(params: Sequence[ParameterText]) -> list[ParameterText]:
    """Return the parameters with values that can be tried together: those of the first regions keep their defaults."""
    fixed = list(params)
    for k, one in enumerate(fixed):
        if prod(len(p.values) for p in fixed) <= MOST_POINTS:
            break
        fixed[k] = ParameterText(one.name, one.default, (one.default,))
    return fixed


@dataclass(frozen=True)
class LaunchText:
    """One `[[launch]]` of the plan."""

    kernel: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    args: tuple[str, ...]
    when: str = ""


@dataclass
class RegionText:
    """The part of a kernel file that one region contributes.

    Attributes:
        suffix: behind the names of its parameters, where other regions have some of that name.
    """

    suffix: str
    code: str = ""
    params: list[ParameterText] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    launches: list[LaunchText] = field(default_factory=list)

    def param(self, name: str, default: int, *values: int) -> str:
        """Add a parameter, tunable if it has several values, and return its name."""
        self.params.append(ParameterText(name + self.suffix, default, values or (default,)))
        return name + self.suffix

    def launch(self, kernel: str, grid: Sequence[str], block: Sequence[str], k: RegionKernel, when: str = "") -> None:
        self.launches.append(LaunchText(kernel, tuple(grid), tuple(block), k.arguments, when))


@functools.cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    return jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template takes
    """Return a rendered template with blank lines folded."""
    text = _templates().get_template(template).render(**values)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))
    return re.sub(r"\{\n\n", "{\n", re.sub(r"\n\n(?=    |  \}|\})", "\n", text)).strip("\n") + "\n"


def _quoted(items: Sequence[str]) -> str:
    return "[" + ", ".join(i if i.isdigit() else f'"{i}"' for i in items) + "]"


def write_file(
    idea: str, naming: Naming, params: Sequence[ParameterText], where: Sequence[str], scratch: Sequence[RegionScratch],
    launches: Sequence[LaunchText], code: str, *, fast: bool = False,
) -> str:  # fmt: skip
    """Return the whole kernel file; `fast` declares approximate intrinsics."""
    lines = [f'idea = "{idea}"', ""]
    mentioned = re.findall(r"\w+", " ".join(f"{' '.join((*t.grid, *t.args))} {t.when}" for t in launches))
    lets = {name: expression for expression, name in naming.lets.items() if name in mentioned}
    if lets:
        lines += ["[let]", *(f'{name} = "{expression}"' for name, expression in lets.items()), ""]
    if params:
        lines += ["[params]", *(f"{p.name} = {_values(p)}" for p in params)]
        lines += [f"where = {_quoted(where)}"] if where else []
        lines.append("")
    for buffer in scratch:
        shape = _quoted([d.text for d in buffer.dims] or ["1"])
        lines += ["[[scratch]]", f'name = "{buffer.name}"', f'dtype = "{buffer.dtype}"', f"shape = {shape}", ""]
    for launch in launches:
        lines += ["[[launch]]", f'kernel = "{launch.kernel}"', f"grid = {_quoted(launch.grid)}"]
        lines += [f"block = {_quoted(launch.block)}", f"args = {_quoted(launch.args)}"]
        lines += [f'when = "{launch.when}"'] if launch.when else []
        lines.append("")
    lines += ["[numerics]", 'accumulate = "float32"', "deterministic = true"]
    lines += ['allow = ["fast_math"]'] if fast else []
    plan = "\n".join(lines)
    head = "#include <cute/tensor.hpp>\n\nusing namespace cute;\n"
    return f"/* cutegen\n{plan}\n*/\n{head}\n{_helpers(code)}{code}"


def _values(parameter: ParameterText) -> str:
    if len(parameter.values) == 1:
        return str(parameter.default)
    return f"{{ default = {parameter.default}, values = [{', '.join(map(str, parameter.values))}] }}"


def _helpers(code: str) -> str:
    """Return the device functions that the code mentions, each after those it uses."""
    text = render("helpers.j2", used=code).strip("\n")
    text = f"{text}\n\n" if text else ""
    used = set(re.findall(r"\b\w+\b", code))
    needed = [h for name, h in HELPERS.items() if name in used]
    for name in list(HELPERS):
        if any(re.search(rf"\b{name}\b", h) for h in needed) and HELPERS[name] not in needed:
            needed.append(HELPERS[name])
    ordered = [h for h in HELPERS.values() if h in needed]
    return "".join(f"{h}\n" for h in ordered) + text
