"""List what a kernel file asks of the preprocessor, and refuse what compilers answer differently.

1. `read_names` splices lines as a compiler does and lists every identifier of the code, in directives too, and those
   that the file defines as macros.
2. `check_preprocessing` refuses names whose value depends on the compiler, and directives that could hide a name.
The names that remain are held against both compilers' macros (`compiler.macro_probe`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.records.trial import Diagnostic

_SPLICE = re.compile(r"\\\r?\n")
_TOKEN = re.compile(
    r'(?:u8|[uUL])?R"(?P<tag>[^()\\\s"]{0,16})\(.*?(?:\)(?P=tag)"|\Z)'
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|(?:u8|[uUL])?\"(?:[^\"\\\n]|\\.)*\"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'"
    r"|\.?[0-9](?:[eEpP][+-]|'[0-9a-zA-Z_]|[0-9a-zA-Z_.])*"
    r"|(?P<directive>(?:(?<=\n)|\A)[ \t]*\#[ \t]*(?P<keyword>\w*)[ \t]*(?P<target>\w*))"
    r"|(?P<name>[^\W\d]\w*)",
    re.DOTALL,
)
_DEFINING, _CONDITIONS = frozenset(("define", "undef")), frozenset(("if", "ifdef", "ifndef", "elif"))

_PLACES = "__FILE__ __FILE_NAME__ __BASE_FILE__ __LINE__ __INCLUDE_LEVEL__ __COUNTER__ __builtin_FILE __builtin_LINE"
_ANSWERED_DIFFERENTLY: Mapping[str, str] = {
    **dict.fromkeys(
        (*_PLACES.split(), "__builtin_COLUMN", "__builtin_FUNCTION", "__builtin_source_location", "source_location",
         "__PRETTY_FUNCTION__", "__FUNCSIG__", "__FUNCDNAME__", "typeid"),
        "compilers spell and count that differently: write the text or number itself",
    ),
    **dict.fromkeys(("__DATE__", "__TIME__", "__TIMESTAMP__"), "the day of compiling is not part of a kernel"),
    **dict.fromkeys(
        ("__FLT_EVAL_METHOD__", "__builtin_constant_p", "__builtin_object_size", "__builtin_dynamic_object_size",
         "__builtin_cpu_supports",
         "__builtin_cpu_is", "__builtin_cpu_init", "__builtin_readcyclecounter", "__builtin_return_address",
         "__builtin_frame_address", "__builtin_types_compatible_p", "__VA_OPT__"),
        "only some compilers have it, and they answer differently",
    ),
}  # fmt: skip
_SPELLS = re.compile(r"^[ \t]*#[ \t]*define[ \t]+\w+\([^\n]*?(?<!#)#[ \t]*(?!#)\w", re.MULTILINE)
_ELISION = re.compile(r"##[ \t]*__VA_ARGS__")
_DEFINES_DEFINED = re.compile(r"^[ \t]*#[ \t]*define\b[^\n]*\bdefined\b", re.MULTILINE)
_UNIVERSAL = re.compile(r"\\[uU][0-9a-fA-F]{4}")
_PASTING_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:ifn?def|elifn?def)\b", re.MULTILINE)
PASTING = "##"
_MACHINE_REGISTER = re.compile(r"%(?:nsmid|gridid|envreg\d*|pm\d+(?:_64)?|total_smem_size|aggr_smem_size)\b")
_ADJACENT = re.compile(r'"\s*"')


@dataclass(frozen=True)
class Identifiers:
    """The identifiers of a kernel file.

    Attributes:
        lines: every identifier, and the first line of the file that has it.
        own: those that the file itself defines or undefines as macros.
        tested: those that stand in conditions (`#if`, `#ifdef`, ...).
        pastes: whether the file makes identifiers with `##`, which are not listed.
    """

    lines: Mapping[str, int]
    own: frozenset[str]
    tested: frozenset[str]
    pastes: bool


def read_names(kernel: KernelFile) -> Identifiers:
    """List the identifiers of the code, of the plan's kernel names and of its parameters."""
    code = _SplicedCode(kernel)
    lines = {name: launch.line for launch in kernel.launches for name in re.findall(r"[^\W\d]\w*", launch.kernel)}
    lines |= {parameter.name: parameter.line for parameter in kernel.params}
    own, tested = set(), set()
    condition_end = -1
    for match in _TOKEN.finditer(code.text):
        if match["directive"]:
            keyword, target = match["keyword"], match["target"]
            if keyword in _DEFINING:
                own.add(target)
            elif keyword in _CONDITIONS:
                condition_end = _find_line_end(code.text, match.start("keyword"))
            name, at = target, match.start("target")
        else:
            name, at = match["name"], match.start()
        if name:
            lines.setdefault(name, code.line(at))
            if at < condition_end:
                tested.add(name)
    return Identifiers(lines, frozenset(own), frozenset(tested), PASTING in code.text and PASTING in code.blanked)


def blank_code(kernel: KernelFile) -> str:
    """Return the code without comments, strings and numbers, its spliced lines joined."""
    return _SplicedCode(kernel).blanked


def check_preprocessing(kernel: KernelFile) -> tuple[Diagnostic, ...]:
    """Return an error for each name and directive that compilers could read differently."""
    code, names = _SplicedCode(kernel), read_names(kernel)
    found = [
        (line, f"'{name}': {_ANSWERED_DIFFERENTLY[name]}")
        for name, line in names.lines.items()
        if name in _ANSWERED_DIFFERENTLY
    ]
    found += [(code.line(at), message) for at, message in _find_directives(code.blanked)]
    found += _find_machine_registers(kernel)
    return tuple(Diagnostic(line, "error", message, "screening") for line, message in sorted(set(found)))


def _find_directives(code: str) -> Iterator[tuple[int, str]]:
    rules = [
        (
            _SPELLS,
            "a macro that spells its argument (#) shows what a compiler's macros are made of: write it out",
        ),
        (_ELISION, "compilers differ about '## __VA_ARGS__': write two macros"),
        (_DEFINES_DEFINED, "a macro may not contain 'defined': compilers differ about it"),
        (_UNIVERSAL, "write the character itself: compilers differ about \\u in names"),
    ]
    if PASTING in code:
        rules.append((_PASTING_CONDITION, "a condition in a file that pastes tokens with ## could ask for any name"))
    for pattern, message in rules:
        for match in pattern.finditer(code):
            yield match.start(), message


def _find_machine_registers(kernel: KernelFile) -> Iterator[tuple[int, str]]:
    """Find special registers of PTX that the machine code reads as constants, so that it does not show them."""
    joined = _ADJACENT.sub(lambda gap: "\n" * gap[0].count("\n"), kernel.body)
    for match in _MACHINE_REGISTER.finditer(joined):
        line = kernel.body_line + joined.count("\n", 0, match.start())
        advice = "pass sm_count as an argument" if match[0] == "%nsmid" else "pass what is needed as an argument"
        yield line, f"'{match[0]}' reads the machine, so the result could not be tested: {advice}"


class _SplicedCode:
    """The body with its spliced lines joined, and the way back to lines of the file."""

    def __init__(self, kernel: KernelFile) -> None:
        self._first, self._splices = kernel.body_line, []
        removed = 0
        for match in _SPLICE.finditer(kernel.body):
            self._splices.append(match.start() - removed)
            removed += len(match[0])
        self.text = _SPLICE.sub("", kernel.body)
        self._breaks = [match.start() for match in re.finditer("\n", self.text)]

    @cached_property
    def blanked(self) -> str:
        """The text without comments, strings and numbers, as long as before."""
        return _TOKEN.sub(_blank, self.text)

    def line(self, position: int) -> int:
        return self._first + bisect_left(self._breaks, position) + bisect_left(self._splices, position)


def _blank(match: re.Match[str]) -> str:
    kept = match["directive"] or match["name"]
    return match[0] if kept else re.sub(r"[^\n]", " ", match[0])


def _find_line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)
