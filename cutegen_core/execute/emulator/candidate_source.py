"""Translate a kernel file's C++ for the host compiler.

1. Refuse foreign includes and constructs of host compilers.
2. Turn inline PTX into calls of the interpreter.
3. Turn `__shared__` variables into watched storage.
4. Append a list of the plan's kernels.
Line numbers do not change: each replacement occupies the same lines as the original text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cutegen_core.execute.compiler.includes import check_includes
from cutegen_core.execute.emulator.asm_statements import AsmError, rewrite_asm
from cutegen_core.execute.emulator.lexer import (
    Token,
    TokenKind,
    blank_comments,
    find_closing,
    is_blank,
    join_text,
    skip_blanks,
    tokenize,
)
from cutegen_core.kernel.lines import line_finder
from cutegen_core.kernel.plan_records import global_name
from cutegen_core.records.trial import Diagnostic

PLAN_FILE = "launch-plan"
SHARED_SECTION = "emu_shared"
RECORD_SECTION = "emu_records"
_TOOL = "emulator"
_MOST_ERRORS = 100
_ALIGNMENT = frozenset({"alignas", "__align__", "__attribute__"})


class SourceError(Exception):
    """The candidate contains code that the emulator does not accept; carries diagnostics."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics


class _Declaration(NamedTuple):
    """A `__shared__` declaration: tokens `start` to `end` (the semicolon), its words, and whether it is extern."""

    start: int
    end: int
    words: tuple[Token, ...]
    external: bool


def translate(program: str, kernel_names: Sequence[str], include_dirs: Sequence[Path]) -> str:
    """Return the translation unit of a candidate.

    Args:
        program: text of `KernelFile.to_cpp`: constants, a `#line`, the body.
        kernel_names: name expressions of the plan; the runner numbers kernels in this order.

    Raises:
        SourceError: a foreign include, inline assembly that is not PTX, or a shared variable in an unknown form.
    """
    head, body, first_line = _split(program)
    complaints = check_includes(body, first_line, include_dirs)
    if complaints:
        raise SourceError(*complaints)
    _refuse_host_constructs(body, first_line)
    try:
        translated = rewrite_asm(body).text
    except AsmError as error:
        raise SourceError(Diagnostic(first_line + error.line - 1, "error", str(error), _TOOL)) from error
    return f"{_WATCHED}{head}{_rewrite_shared(translated, first_line)}\n{_write_kernel_list(kernel_names)}"


# Neutralise attributes that switch off the instrumentation, even if a macro composes their names.
_WATCHED = "".join(
    f"#define {name} emu_no_attribute\n"
    for bare in ("no_sanitize", "no_sanitize_thread", "no_instrument_function", "disable_sanitizer_instrumentation")
    for name in (bare, f"__{bare}__")
)  # fmt: skip
_LINE = re.compile(r'^#line (\d+) "[^"\n]*"\n', re.MULTILINE)
_HOST_ONLY = (
    (re.compile(r"\b(?:constructor|destructor|ifunc|init_priority|section|weakref|alias)\b(?=[^;{}\n]*\)\s*\))"),
     "this attribute is not for device code"),
    (re.compile(r"(?:#|%:)[ \t]*pragma[ \t]+(?!unroll\b|nounroll\b|once\b|nv_)"), "only #pragma unroll is allowed"),
    (re.compile(r"\b_Pragma\s*\(\s*\"(?!\s*(?:unroll|nounroll))"), "only _Pragma(\"unroll\") is allowed"),
    (re.compile(r"#[ \t]*undef[ \t]+\w*(?:sanitize|instrument)"), "this name cannot be taken back"),
    (re.compile(r"\bemu_\w+|\bemu\s*::|\b__(?:tsan|ubsan|sanitizer)_\w+"), "this name belongs to the emulator"),
)  # fmt: skip


def _split(program: str) -> tuple[str, str, int]:
    marker = _LINE.search(program)
    if marker is None:
        return "", program, 1
    return program[: marker.end()], program[marker.end() :], int(marker[1])


def _refuse_host_constructs(body: str, first_line: int) -> None:
    code = blank_comments(body)
    line_of = line_finder(code, first_line)
    found = [
        Diagnostic(line_of(match.start()), "error", f"{match[0].strip()}: {message}", _TOOL)
        for pattern, message in _HOST_ONLY
        for match in islice(pattern.finditer(code), _MOST_ERRORS)
    ]
    if found:
        raise SourceError(*sorted(found, key=lambda d: d.line))


# -- shared variables -------------------------------------------------------------------------------------------------


def _rewrite_shared(text: str, first_line: int) -> str:
    if "__shared__" not in text:
        return text
    source = tokenize(text)
    parts: list[str] = []
    position = 0
    for declaration in _find_declarations(source, first_line):
        lines = "\n" * sum(t.text.count("\n") for t in source[declaration.start : declaration.end])
        parts.append(join_text(source[position : declaration.start]))
        written = (
            _write_dynamic(declaration, first_line) if declaration.external else _write_static(declaration, first_line)
        )
        parts.append(written + lines)
        position = declaration.end
    return "".join([*parts, join_text(source[position:])])


def _find_declarations(source: Sequence[Token], first_line: int) -> Iterator[_Declaration]:
    index = 0
    while index < len(source):
        if source[index].kind is not TokenKind.NAME or source[index].text != "__shared__":
            index += 1
            continue
        start = _find_start(source, index)
        end = _find_end(source, index)
        solid = tuple(t for t in source[start:end] if not is_blank(t) and t.text not in ("__shared__", "static"))
        external = any(t.text == "extern" for t in solid)
        words = tuple(t for t in solid if t.text != "extern")
        if end == len(source) or len(words) < 2 or any(t.text == "#" for t in words):
            raise _shared_error(
                "cannot be understood; declare it as `__shared__ TYPE NAME[SIZE];`", source[index], first_line
            )
        yield _Declaration(start, end, words, external)
        index = end


def _find_start(source: Sequence[Token], index: int) -> int:
    """Return the start of the declaration: `extern` or `alignas(...)` may precede `__shared__`."""
    position = index
    while (
        position > 0
        and source[position - 1].text not in (";", "{", "}", ":")
        and not _ends_line_directive(source, position - 1)
    ):
        position -= 1
    return skip_blanks(source, position)


def _ends_line_directive(source: Sequence[Token], index: int) -> bool:
    """Tell whether a token is the line break after a preprocessor line."""
    if "\n" not in source[index].text or source[index].kind is not TokenKind.SPACE:
        return False
    back = index - 1
    while back >= 0 and "\n" not in source[back].text:
        if source[back].text == "#":
            return True
        back -= 1
    return False


def _find_end(source: Sequence[Token], index: int) -> int:
    while index < len(source) and source[index].text != ";":
        index = find_closing(source, index) if source[index].text in ("(", "[", "{") else index
        index += 1
    return index


def _shared_error(message: str, token: Token, first_line: int) -> SourceError:
    return SourceError(Diagnostic(first_line + token.line - 1, "error", f"this __shared__ variable {message}", _TOOL))


class _Declarator(NamedTuple):
    name: str
    extents: str


def _parse_declaration(declaration: _Declaration, first_line: int) -> tuple[str, str, list[_Declarator]]:
    """Return alignment, type and declarators of a declaration such as `alignas(16) float a[4], b;`."""
    words = list(declaration.words)
    alignment = _take_alignment(words)
    pieces = _split_declarators(words)
    cut = _find_name(pieces[0])
    if cut < 1:
        raise _shared_error("cannot be understood; declare it as `__shared__ TYPE NAME[SIZE];`", words[0], first_line)
    declarators = []
    for number, piece in enumerate(pieces):
        at = cut if number == 0 else 0
        rest = piece[at + 1 :]
        if not piece or piece[at].kind is not TokenKind.NAME or (rest and rest[0].text != "["):
            raise _shared_error("must not be initialised, and must be a plain name or array", words[0], first_line)
        declarators.append(_Declarator(piece[at].text, " ".join(t.text for t in rest)))
    return alignment, " ".join(t.text for t in pieces[0][:cut]), declarators


def _take_alignment(words: list[Token]) -> str:
    """Remove alignment specifiers and return them."""
    taken = ""
    index = 0
    while index < len(words):
        if words[index].text in _ALIGNMENT and index + 1 < len(words):
            end = find_closing(words, index + 1) + 1
            taken += " " + "".join(t.text for t in words[index:end])
            del words[index:end]
        else:
            index += 1
    return taken.strip()


def _split_declarators(words: Sequence[Token]) -> list[list[Token]]:
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in words:
        depth += (token.text in ("(", "[", "{", "<")) - (token.text in (")", "]", "}", ">"))
        if token.text == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _find_name(piece: Sequence[Token]) -> int:
    """Return the index of the declared name: the last name before the extents; -1 if there is none."""
    depth = 0
    for index in range(len(piece) - 1, -1, -1):
        depth += (piece[index].text == "]") - (piece[index].text == "[")
        if depth == 0 and piece[index].text != "[":
            return index if piece[index].kind is TokenKind.NAME else -1
    return -1


def _write_static(declaration: _Declaration, first_line: int) -> str:
    alignment, kind, declarators = _parse_declaration(declaration, first_line)
    line = first_line + declaration.words[-1].line - 1
    return " ".join(_write_static_variable(alignment, kind, declarator, line) for declarator in declarators)[:-1]


def _write_static_variable(alignment: str, kind: str, declarator: _Declarator, line: int) -> str:
    name, type_name, storage = declarator.name, f"emu_type_{declarator.name}", f"emu_store_{declarator.name}"
    if alignment:  # the compiler refuses less than the storage's own alignment; of several the strictest applies
        alignment = f"alignas(16) {alignment}"
    return (
        f"typedef {kind} {type_name} {declarator.extents}; "
        f'{alignment} static emu::Shared<{type_name}> {storage} __attribute__((section("{SHARED_SECTION}"))); '
        f'static const EmuShared emu_record_{name} __attribute__((used, section("{RECORD_SECTION}"))) = '
        f'{{&{storage}, sizeof({type_name}), emu::itemsize<{type_name}>(), "{name}", {line}}}; '
        f"static {type_name}& {name} = reinterpret_cast<{type_name}&>({storage});"
    )


def _write_dynamic(declaration: _Declaration, first_line: int) -> str:
    """Write a dynamic shared array; the runner decides its place, and a record without address holds its name."""
    alignment, kind, declarators = _parse_declaration(declaration, first_line)
    name, extents = declarators[0]
    line = first_line + declaration.words[-1].line - 1
    return (
        f'extern {alignment} {kind} {name} {extents} __asm__("emu_dynamic_shared"); '
        f'static const EmuShared emu_record_{name} __attribute__((used, section("{RECORD_SECTION}"))) = '
        f'{{nullptr, 0, sizeof({kind}), "{name}", {line}}}'
    )


# -- the list of kernels ----------------------------------------------------------------------------------------------


def _write_kernel_list(kernel_names: Sequence[str]) -> str:
    entries = "".join(
        f'#line {number} "{PLAN_FILE}"\nemu::Entry<(&{global_name(name)})>::record({json.dumps(name)}),\n'
        for number, name in enumerate(kernel_names, 1)
    )
    return (
        f'#line 1 "{PLAN_FILE}"\n'
        f'extern "C" {{ extern const EmuShared __start_{RECORD_SECTION}[] __attribute__((weak)); '
        f"extern const EmuShared __stop_{RECORD_SECTION}[] __attribute__((weak)); "
        f"EMU_EXPORT const EmuShared* const emu_shared_records_begin = __start_{RECORD_SECTION}; "
        f"EMU_EXPORT const EmuShared* const emu_shared_records_end = __stop_{RECORD_SECTION}; "
        f"EMU_EXPORT const int64_t emu_kernel_count = {len(kernel_names)};\n"
        f"EMU_EXPORT const EmuKernel emu_kernels[] = {{\n{entries}}}; }}\n"
    )
