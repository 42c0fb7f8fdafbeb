"""Parse a kernel file: one `.cu` of device code that opens with a comment holding its launch plan.

1. `parse` separates the comment's TOML (`plan_read`) from the C++ below it.
2. `KernelFile.to_cpp` writes the compiler's input: parameters as constants, then the body with its line numbers.
3. `KernelFile.plan` evaluates the plan for one workload (`plan_resolve`).
A malformed file raises KernelFileError with the line. Nothing here runs or compiles code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from random import Random

from cutegen_core.kernel.expressions import Number, suggest_name
from cutegen_core.kernel.plan_limits import DeviceNumbers
from cutegen_core.kernel.plan_read import read_plan
from cutegen_core.kernel.plan_records import (
    Instance,
    LaunchSpec,
    Let,
    Located,
    Numerics,
    Parameter,
    PlanText,
    ScratchSpec,
    TensorMapSpec,
)
from cutegen_core.kernel.plan_resolve import check_where, complete_params, resolve_plan
from cutegen_core.records.errors import KernelFileError, KernelFileTooLargeError
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Signature

__all__ = [
    "DeviceNumbers",
    "KernelFile",
    "LaunchSpec",
    "Numerics",
    "Parameter",
    "ScratchSpec",
    "TensorMapSpec",
    "decode",
    "parse",
]

MAX_BYTES = 1 << 20
MAX_PLAN = 1 << 19
MAX_INSTANCES = 8
"""Of one launch: each is compiled twice, and takes seconds."""
PROGRAM_NAME = "candidate.cu"

# Control characters, invisible characters and direction marks: with them a person reads other code than is compiled.
_HIDING = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)"
)
_GLOBAL_FUNCTION = re.compile(
    r"__global__(?:\s|__\w+__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)|void\b|static\b|inline\b)*(?P<name>\w+)\s*\("
)
_OPENING = re.compile(r"\A\s*/\*[ \t]*cutegen\b")


@dataclass(frozen=True)
class KernelFile:
    """A parsed kernel file.

    Attributes:
        text: the whole file as it was given.
        body: the C++ below the comment.
        body_line: 1-based line of `text` on which `body` begins.
    """

    text: str
    body: str
    body_line: int
    contents: PlanText = field(repr=False)

    @property
    def idea(self) -> str:
        """What the kernel tries, in one line; may be empty."""
        return self.contents.idea

    @property
    def lets(self) -> tuple[Let, ...]:
        return self.contents.lets

    @property
    def params(self) -> tuple[Parameter, ...]:
        return self.contents.params

    @property
    def where(self) -> tuple[Located, ...]:
        """Conditions that every choice of parameters must meet."""
        return self.contents.where

    @property
    def launches(self) -> tuple[LaunchSpec, ...]:
        return self.contents.launches

    @property
    def scratch(self) -> tuple[ScratchSpec, ...]:
        return self.contents.scratch

    @property
    def tensor_maps(self) -> tuple[TensorMapSpec, ...]:
        return self.contents.tensor_maps

    @property
    def numerics(self) -> Numerics:
        return self.contents.numerics

    def defaults(self) -> dict[str, Number]:
        """Return the default of every parameter."""
        return {p.name: p.default for p in self.params}

    def for_emulator(self) -> KernelFile:
        """Return the file with the emulator's defaults in place of the GPU's; itself where they are the same."""
        if all(p.emulator is None for p in self.params):
            return self
        params = tuple(p if p.emulator is None else replace(p, default=p.emulator, emulator=None) for p in self.params)
        return replace(self, contents=replace(self.contents, params=params))

    def kernel_names(self) -> tuple[str, ...]:
        """Return the distinct C++ name expressions to compile, in order."""
        return tuple(dict.fromkeys(instance.kernel for instance in self.instances()))

    def instances(self) -> tuple[Instance, ...]:
        """Return the kernels to compile; those of the launches as written, unless `with_instances` knows better."""
        return self.contents.instances or tuple(Instance(launch.kernel, launch.line) for launch in self.launches)

    def size_names(self) -> tuple[str, ...]:
        """Return the lets that are template arguments of a kernel: each of their values is a kernel of its own."""
        used = frozenset[str]().union(*(launch.template_names for launch in self.launches))
        return tuple(let.name for let in self.lets if let.name in used)

    def with_instances(self, plans: Iterable[LaunchPlan]) -> KernelFile:
        """Return the file with the kernels of these plans to compile; itself where no let is a template argument.

        Raises:
            KernelFileError: they are too many.
        """
        names = set(self.size_names())
        if not names:
            return self
        bound = {launch.line for launch in self.launches if launch.template_names & names}
        made = dict.fromkeys(
            Instance(one.kernel, one.line) for plan in plans for one in plan.launches if one.line in bound
        )
        for line in sorted(bound):
            count = sum(instance.line == line for instance in made)
            if count > MAX_INSTANCES:
                raise KernelFileError(
                    f"{', '.join(sorted(names))} as template arguments make {count} instances for this problem's "
                    f"workloads; at most {MAX_INSTANCES} of a launch are compiled: limit it by 'when', or pass them",
                    line,
                )
        fixed = (Instance(launch.kernel, launch.line) for launch in self.launches if launch.line not in bound)
        return replace(self, contents=replace(self.contents, instances=(*fixed, *made)))

    def to_cpp(self, params: Mapping[str, Number] | None = None) -> str:
        """Return the C++ for a compiler: a `constexpr` for each parameter, then the body with the file's line numbers.

        Raises:
            KernelFileError: `params` names a parameter that the file does not declare.
        """
        values = complete_params(self.params, params or {})
        constants = "".join(_format_constant(name, value) for name, value in values.items())
        return f'{constants}#line {self.body_line} "{PROGRAM_NAME}"\n{self.body}'

    def plan(
        self,
        signature: Signature,
        device: DeviceNumbers,
        params: Mapping[str, Number] | None = None,
        workload: str = "",
    ) -> LaunchPlan:
        """Resolve the launches of one workload within the limits of `device`; messages name `workload`.

        Raises:
            KernelFileError: an unknown name, a non-integer size or an exceeded limit; with the line and the numbers.
        """
        return resolve_plan(self.contents, signature, device, params or {}, workload)

    def count_choices(self) -> int:
        """Return the number of choices of parameter values, those that `where` forbids included."""
        return prod(len(p.values) for p in self.params)

    def combinations(self, device: DeviceNumbers, most: int | None = None) -> Iterator[dict[str, Number]]:
        """Yield every choice of parameter values that `where` allows on `device`, the default first.

        Args:
            most: look at that many choices only; of more, at some drawn evenly and always the same.
        """
        default, total = self.defaults(), self.count_choices()
        numbers = range(total) if most is None or total <= most else sorted(Random(0).sample(range(total), most))
        for chosen in chain((default,), (c for c in map(self._choice, numbers) if c != default)):
            try:
                check_where(self.where, chosen, device)
            except KernelFileError:
                continue
            yield chosen

    def _choice(self, number: int) -> dict[str, Number]:
        """Return the choice with this number; the last parameter changes fastest."""
        chosen: dict[str, Number] = {}
        for parameter in reversed(self.params):
            number, position = divmod(number, len(parameter.values))
            chosen[parameter.name] = parameter.values[position]
        return {p.name: chosen[p.name] for p in self.params}

    @property
    def tunable(self) -> bool:
        """Return whether a parameter has several values."""
        return any(parameter.tunable for parameter in self.params)

    def with_param(self, name: str, value: Number) -> str:
        """Return the file's text with another default for one parameter, added to its `values` if missing there.

        Raises:
            KernelFileError: no such parameter.
        """
        complete_params(self.params, {name: value})
        parameter = next(p for p in self.params if p.name == name)
        written = re.escape(name) + r"\s*=\s*"
        values = parameter.values if value in parameter.values else (*parameter.values, value)
        listed = f", values = [{', '.join(map(_format_toml, values))}]" if parameter.tunable else ""
        apart = f", emulator = {_format_toml(parameter.emulator)}" if parameter.emulator is not None else ""
        replacement = (
            f"{{ default = {_format_toml(value)}{listed}{apart} }}" if listed or apart else _format_toml(value)
        )
        pattern = rf"^(\s*{written})(\{{[^}}]*\}}|[^#\s{{]+)"
        lines = self.text.split("\n")
        changed, count = re.subn(pattern, lambda m: m[1] + replacement, lines[parameter.line - 1], count=1)
        if not count:
            return self._with_param_of_several_lines(name, value, values)
        lines[parameter.line - 1] = changed
        return parse("\n".join(lines)).text

    def _with_param_of_several_lines(self, name: str, value: Number, values: Sequence[Number]) -> str:
        """Write a parameter that is a table of its own, or has a list over several lines; the rest stays as it is."""
        import tomlkit  # takes 20 ms, and few files need it

        opening = _OPENING.match(self.text)
        assert opening is not None
        end = self.text.index("*/", opening.end())
        plan = tomlkit.parse(self.text[opening.end() : end])
        written = plan["params"]
        if isinstance(written[name], dict):
            written[name]["default"] = value
            if "values" in written[name]:
                written[name]["values"] = list(values)
        else:
            written[name] = value
        return parse(self.text[: opening.end()] + tomlkit.dumps(plan) + self.text[end:]).text

    def with_launch(self, index: int, key: str, toml: str) -> str:
        """Return the file's text with another value for one field of one launch; `toml` is the value as TOML.

        A field that the launch does not have yet is inserted above its arguments.

        Raises:
            KernelFileError: no such launch, the field is not written on one line, or the plan cannot be read with it.
        """
        line = self.contents.lines.get(("launch", index, key), 0)
        if not line:
            return self._with_new_line(index, f"{key} = {toml}")
        return self._with_line(line, rf"^(\s*{re.escape(key)}\s*=\s*)(\[[^\]]*\]|\"[^\"]*\"|[^#\s]+)", toml, key)

    def _with_new_line(self, index: int, text: str) -> str:
        before = self.contents.lines.get(("launch", index, "args"), 0)
        if not before:
            raise KernelFileError(f"there is no [[launch]] number {index + 1} to change")
        lines = self.text.split("\n")
        indent = re.match(r"\s*", lines[before - 1])
        lines.insert(before - 1, (indent[0] if indent else "") + text)
        return parse("\n".join(lines)).text

    def with_idea(self, idea: str) -> str:
        """Return the file's text with another idea.

        Raises:
            KernelFileError: the file has no idea on a line of its own.
        """
        line = self.contents.lines.get(("", 0, "idea"), 0)
        if not line:
            raise KernelFileError("the plan has no 'idea = \"...\"' to change", 1)
        text = idea.replace("\\", "/").replace('"', "'")
        return self._with_line(line, r"^(\s*idea\s*=\s*)(\"[^\"]*\"|'[^']*')", f'"{text}"', "idea")

    def _with_line(self, line: int, pattern: str, replacement: str, what: str) -> str:
        lines = self.text.split("\n")
        changed, count = re.subn(pattern, lambda m: m[1] + replacement, lines[line - 1], count=1)
        if not count:
            raise KernelFileError(f"{what} is not written on one line: change it in the text", line)
        lines[line - 1] = changed
        return parse("\n".join(lines)).text


def parse(text: str | bytes) -> KernelFile:
    """Parse a kernel file.

    Raises:
        KernelFileTooLargeError: the file has more than 1 MB, or its plan more than 256 KiB.
        KernelFileError: it is not UTF-8 text, has no plan, or its plan is malformed; with the line.
    """
    source = decode(text)
    opening = _OPENING.match(source)
    if opening is None:
        raise KernelFileError(_explain_missing_plan(source), 1)
    end = source.find("*/", opening.end())
    if end < 0:
        raise KernelFileError("the comment that holds the launch plan is never closed: add */ below the plan", 1)
    if end - opening.end() > MAX_PLAN:
        text = f"the launch plan has {end - opening.end():,} characters; at most {MAX_PLAN:,} fit"
        raise KernelFileTooLargeError(text, 1)
    plan = read_plan(source[opening.end() : end], _line_of(source, opening.end()))
    body_start = end + 2
    kernel = KernelFile(source, source[body_start:], _line_of(source, body_start), plan)
    _check_kernels_exist(kernel)
    return kernel


def is_tunable(text: str) -> bool:
    """Return whether a kernel file declares a parameter with several values; not, where it cannot be parsed."""
    try:
        return parse(text).tunable
    except KernelFileError:
        return False


def decode(text: str | bytes) -> str:
    """Return the text of a kernel file.

    Raises:
        KernelFileTooLargeError: it has more than 1 MB.
        KernelFileError: it is not UTF-8 text.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        megabytes, most = len(data) / 1e6, MAX_BYTES / 1e6
        raise KernelFileTooLargeError(f"the file has {megabytes:.1f} MB; a kernel file may have at most {most:.1f} MB")
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KernelFileError(
            f"byte 0x{data[error.start]:02x} is not UTF-8 text: save the file as UTF-8", line
        ) from error
    if "\0" in source:
        raise KernelFileError("there is a NUL byte in the file: it is not text", _line_of(source, source.index("\0")))
    source = source.removeprefix("\ufeff")
    hidden = _HIDING.search(source)
    if hidden:
        what = "a carriage return without a line feed" if hidden[0] == "\r" else f"the character U+{ord(hidden[0]):04X}"
        text = f"{what} makes the file read differently than it is compiled: remove it"
        raise KernelFileError(text, _line_of(source, hidden.start()))
    return source


def _explain_missing_plan(source: str) -> str:
    if not source.strip():
        return "the file is empty"
    if re.search(r"/\*[ \t]*cutegen\b", source):
        return "the comment '/* cutegen' must be the first thing in the file"
    return "a kernel file opens with a comment '/* cutegen ... */' that holds its launch plan (TOML with [[launch]])"


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _check_kernels_exist(kernel: KernelFile) -> None:
    """Refuse a plan that launches a function missing from the code, and name the functions that exist."""
    if not kernel.body.strip():
        raise KernelFileError("there is no code below the plan", kernel.body_line)
    for index, launch in enumerate(kernel.launches):
        if not re.search(rf"\b{launch.function}\b", kernel.body):
            defined = find_global_functions(kernel.body)
            line = kernel.contents.lines.get(("launch", index, "kernel"), launch.line)
            hint = suggest_name(launch.function, defined)
            raise KernelFileError(f"the plan launches '{launch.function}', which the code does not define{hint}", line)


def find_global_functions(code: str) -> dict[str, int]:
    """Return the names of the kernels that a text defines or declares, and where the first name of each begins.

    For messages: comments are read as code.
    """
    found: dict[str, int] = {}
    for match in _GLOBAL_FUNCTION.finditer(code):
        found.setdefault(match["name"], match.start("name"))
    return found


def _format_constant(name: str, value: Number) -> str:
    if isinstance(value, bool):
        return f"constexpr bool {name} = {'true' if value else 'false'};\n"
    if isinstance(value, float):
        return f"constexpr float {name} = {value!r}f;\n"
    wide = not -(2**31) <= value < 2**31
    return f"constexpr {'long long' if wide else 'int'} {name} = {value}{'LL' if wide else ''};\n"


def _format_toml(value: Number) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
