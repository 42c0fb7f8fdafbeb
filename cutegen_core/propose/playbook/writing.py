"""Write kernels as a kernel file: the launch plan, the helpers they use, the filled-in templates."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jinja2

from cutegen_core.propose.playbook.kernels import RegionKernel
from cutegen_core.propose.playbook.naming import Naming
from cutegen_core.propose.playbook.pointwise.device_functions import HELPERS
from cutegen_core.propose.playbook.regions import Region

_WORD = re.compile(r"\w+")
_ONE_PART = re.compile(r"\w+\.shape\[\d+\]|\w*\(.*\)")


@dataclass(frozen=True)
class ParameterText:
    """A tunable parameter of the plan."""

    name: str
    default: int
    values: tuple[int, ...]
    emulator: int | None = None


@dataclass(frozen=True)
class LaunchText:
    """One `[[launch]]` of the plan.

    Attributes:
        smem: dynamic shared memory in bytes.
        cluster: blocks of a cluster.
    """

    kernel: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    args: tuple[str, ...]
    when: str = ""
    smem: str = ""
    cluster: tuple[str, ...] = ()
    cooperative: bool = False

    def only(self, when: str) -> LaunchText:
        """Return it for fewer workloads."""
        return replace(self, when=f"({self.when}) and {when}" if self.when else when)

    @property
    def lines(self) -> list[str]:
        """Return its TOML."""
        lines = ["[[launch]]", f'kernel = "{self.kernel}"', f"grid = {_quoted(self.grid)}"]
        lines.append(f"block = {_quoted(self.block)}")
        lines += [f"cluster = {_quoted(self.cluster)}"] if self.cluster else []
        lines += ["cooperative = true"] if self.cooperative else []
        lines += [f'smem = "{self.smem}"'] if self.smem else []
        lines.append(f"args = {_quoted(self.args)}")
        return [*lines, *([f'when = "{self.when}"'] if self.when else []), ""]


@dataclass(frozen=True)
class ScratchText:
    """One `[[scratch]]` of the plan; `zero` has it zeroed before every call."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    zero: bool = False

    @property
    def lines(self) -> list[str]:
        """Return its TOML."""
        lines = ["[[scratch]]", f'name = "{self.name}"', f'dtype = "{self.dtype}"', f"shape = {_quoted(self.shape)}"]
        return [*lines, *(['init = "zero"'] if self.zero else []), ""]


@dataclass(frozen=True)
class TensorMapText:
    """One `[[tensormap]]` of the plan: a box of a view of a tensor, fastest dimension first.

    Attributes:
        strides: of dimensions 1, 2, ...; in elements, as the others.
    """

    name: str
    tensor: str
    box: tuple[str, ...]
    dims: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    offset: str = ""
    swizzle: str = "none"
    l2_promotion: str = "none"

    @property
    def lines(self) -> list[str]:
        """Return its TOML."""
        lines = ["[[tensormap]]", f'name = "{self.name}"', f'tensor = "{self.tensor}"', f"box = {_quoted(self.box)}"]
        lines += [f"dims = {_quoted(self.dims)}"] if self.dims else []
        lines += [f"strides = {_quoted(self.strides)}"] if self.strides else []
        lines += [f'offset = "{self.offset}"'] if self.offset not in ("", "0") else []
        words = {"swizzle": self.swizzle, "l2_promotion": self.l2_promotion}
        return [*lines, *(f'{key} = "{word}"' for key, word in words.items() if word != "none"), ""]


@dataclass
class RegionText:
    """The part of a kernel file that one region contributes.

    Attributes:
        suffix: behind the names of its parameters, where other regions have some of that name.
        scratch: buffers between its own launches.
        maps: tensor maps, which its launches pass by name.
        includes: headers besides CuTe's own, such as "cutlass/arch/barrier.h".
        allow: relaxations that it makes use of.
    """

    suffix: str
    code: str = ""
    params: list[ParameterText] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    launches: list[LaunchText] = field(default_factory=list)
    scratch: list[ScratchText] = field(default_factory=list)
    maps: list[TensorMapText] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)

    def param(self, name: str, default: int, *values: int, emulator: int | None = None) -> str:
        """Add a parameter, tunable if it has several values, and return its name; the emulator may take another one."""
        self.params.append(ParameterText(name + self.suffix, default, values or (default,), emulator))
        return name + self.suffix

    def add_code(self, code: str) -> None:
        """Add a kernel below those that are there."""
        self.code = "\n".join(part for part in (self.code, code) if part)

    def launch(
        self, kernel: str, grid: Sequence[str], block: Sequence[str], k: RegionKernel, when: str = "", smem: str = ""
    ) -> None:
        """Add a launch with the arguments of `k`; others are appended to `launches`."""
        self.launches.append(LaunchText(kernel, tuple(grid), tuple(block), k.arguments, when, smem))


@dataclass(frozen=True)
class Level:
    """An entry of a menu."""

    name: str
    idea: str
    write: Callable[[Region, str, Naming, str], RegionText]


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
    idea: str, naming: Naming, pieces: Sequence[RegionText], scratch: Sequence[ScratchText], allow: Sequence[str] = ()
) -> str:
    """Return the whole kernel file of these regions, with the buffers between them; `allow` declares relaxations."""
    launches, maps = [t for p in pieces for t in p.launches], [t for p in pieces for t in p.maps]
    params, where = [t for p in pieces for t in p.params], tuple(dict.fromkeys(t for p in pieces for t in p.where))
    buffers = [*scratch, *(t for p in pieces for t in p.scratch)]
    entries = [line for b in buffers for line in b.lines]
    entries += [line for m in maps for line in m.lines] + [line for t in launches for line in t.lines]
    lets, entries = _lets(naming, entries)
    lines = [f'idea = "{idea}"', "", *lets]
    if params:
        lines += ["[params]", *(f"{p.name} = {_values(p)}" for p in params)]
        lines += [f"where = {_quoted(where)}"] if where else []
        lines.append("")
    lines += entries
    lines += ["[numerics]", 'accumulate = "float32"', "deterministic = true"]
    words = dict.fromkeys([*allow, *(word for p in pieces for word in p.allow)])
    lines += [f"allow = {_quoted(tuple(words))}"] if words else []
    plan, code = "\n".join(lines), "\n".join(p.code for p in pieces if p.code)
    headers = dict.fromkeys(["cute/tensor.hpp", *(header for p in pieces for header in p.includes)])
    head = "".join(f"#include <{header}>\n" for header in headers)
    return f"/* cutegen\n{plan}\n*/\n{head}\nusing namespace cute;\n\n{_helpers(code)}{code}"


_SHORT = 256
"""Characters of an expression from which it comes behind shorter ones, of which it may be made."""


def _lets(naming: Naming, texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return `[let]` with the names that these lines mention, and those that their expressions mention; and the lines,
    in which a name stands for each expression that has one."""
    named, lets = _Named(), list[tuple[str, str]]()
    for expression, name in sorted(naming.lets.items(), key=lambda let: len(let[0]) // _SHORT):
        short = named.shorten(expression)
        lets.append((name, short))
        named.add(short, name)
    lines = list(map(named.shorten, texts))
    mentioned, wanted = set(_WORD.findall(" ".join(lines))), list[str]()
    for name, expression in reversed(lets):
        if name in mentioned:
            mentioned.update(_WORD.findall(expression))
            wanted.append(f'{name} = "{expression}"')
    return ["[let]", *reversed(wanted), ""] if wanted else [], lines


class _Named:
    """Expressions with names of their own: sizes of tensors, calls, and what is in parentheses."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, expression: str, name: str) -> None:
        if _ONE_PART.fullmatch(expression) and _is_closed_at_end(expression):
            self._names[expression] = name

    def shorten(self, text: str) -> str:
        """Return the text with names for these expressions, in the order in which they were named."""
        for expression, name in self._names.items():
            if expression in text:
                text = re.sub(rf"(?<![\w.]){re.escape(expression)}", name, text)
        return text


def _is_closed_at_end(expression: str) -> bool:
    """Return whether the first parenthesis is closed by the last one."""
    depth = 0
    for at, letter in enumerate(expression):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and not depth:
            return at == len(expression) - 1
    return True


def _values(parameter: ParameterText) -> str:
    if len(parameter.values) == 1 and parameter.emulator is None:
        return str(parameter.default)
    parts = [f"default = {parameter.default}"]
    parts += [f"emulator = {parameter.emulator}"] if parameter.emulator is not None else []
    parts += [f"values = [{', '.join(map(str, parameter.values))}]"] if len(parameter.values) > 1 else []
    return f"{{ {', '.join(parts)} }}"


def _helpers(code: str) -> str:
    """Return the device functions that the code mentions, each after those it uses."""
    text = render("helpers.j2", used=code).strip("\n")
    text = f"{text}\n\n" if text else ""
    used = set(_WORD.findall(code))
    needed = [h for name, h in HELPERS.items() if name in used]
    for name in reversed(list(HELPERS)):
        if any(re.search(rf"\b{name}\b", h) for h in needed) and HELPERS[name] not in needed:
            needed.append(HELPERS[name])
    ordered = [h for h in HELPERS.values() if h in needed]
    return "".join(f"{h}\n" for h in ordered) + text
