"""Turn the compilers' log into diagnostics on lines of the kernel file.

1. `fold` splits NVRTC's log into messages: a headline, its source line, and the stack of template instantiations.
2. An error inside a header moves to the candidate's line that led there; headline and stack become notes.
3. The messages of ptxas follow: errors, warnings and performance hints (C75xx).
Errors come first, in the compiler's order but for what only follows from another; the result also keeps the raw log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cutegen_core.execute.compiler.demangle import demangle_all
from cutegen_core.kernel.kernel_file import PROGRAM_NAME, KernelFile, find_global_functions
from cutegen_core.records.trial import Diagnostic

NAME_MAP = "__nv_name_map"
_MOST_NOTES = 24
_LONGEST_TEXT = 600
_MOST_DIAGNOSTICS = 50
_RANK = {"error": 0, "warning": 1, "hint": 2}

_HEADLINE = re.compile(
    r"(?P<file>[^\s(][^()\n]*)\((?P<line>\d+)\): (?P<severity>(?:catastrophic )?error|warning|note|remark)"
    r"(?: #(?P<number>[\w-]+))?: (?P<text>.*)"
)
_BARE = re.compile(r"(?:(?i:catastrophic) error|nvrtc: error|error): (?P<text>.*)")
_FRAME = re.compile(r"(?:detected )?(?:during:?\s*)?(?P<what>.*?) ?at line (?P<line>\d+) of \"?(?P<file>[^\"]+?)\"?")
_CARET = re.compile(r"\s*\^\s*")
_UNKNOWN = re.compile(
    r'identifier ".*" is undefined|name followed by "::"|namespace .* has no member|the global scope has'
)
_CONSEQUENCE = re.compile(r'attribute ".*" does not apply here|incomplete type "void" is not allowed')
"""What NVRTC says first of a declaration in which a type is unknown."""
_EXPRESSION = re.compile(r'Input name expression was: "(.*)"')
_PTXAS = re.compile(r"ptxas(?: (?P<where>[^;:]*);)?\s*(?P<severity>fatal|error|warning|info)\s*: (?P<text>.*)")
_HINT = re.compile(r"\(C75\d\d\)|Potential Performance Loss")


class _FrontEndMessage(NamedTuple):
    """One message of NVRTC's front end with the lines that belong to it."""

    file: str
    line: int
    severity: str
    text: str
    rest: tuple[str, ...]


class _Frame(NamedTuple):
    what: str
    file: str
    line: int


def fold(log: str, kernel: KernelFile) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of one compile, errors first, with lines of the kernel file if known."""
    blocks = list(_split_log(log))
    found = [
        *_read_name_errors([b for b in blocks if b.file == NAME_MAP], kernel),
        *(_make_diagnostic(b) for b in blocks if b.file != NAME_MAP),
        *_read_ptxas_messages(log, kernel),
    ]
    kept = [d for d in dict.fromkeys(found) if d.severity != "warning" or d.line or d.tool == "ptxas"]
    ranked = sorted(kept, key=lambda d: (_RANK[d.severity], _CONSEQUENCE.match(d.message) is not None))
    return tuple(ranked[:_MOST_DIAGNOSTICS])


def _split_log(log: str) -> Iterator[_FrontEndMessage]:
    current: _FrontEndMessage | None = None
    for line in log.splitlines():
        headline = _HEADLINE.match(line)
        bare = None if headline else _BARE.match(line)
        starts = bare or (headline and headline["severity"] not in ("note", "remark"))
        if current and (starts or not line.strip()):
            yield current
            current = None
        if headline and starts:
            severity = "warning" if headline["severity"] == "warning" else "error"
            current = _FrontEndMessage(headline["file"], int(headline["line"]), severity, headline["text"], ())
        elif bare:
            current = _FrontEndMessage("", 0, "error", bare["text"], ())
        elif current:
            current = current._replace(rest=(*current.rest, line))
    if current:
        yield current


def _make_diagnostic(block: _FrontEndMessage) -> Diagnostic:
    source, context, frames = _split_block(block.rest)
    text = block.text
    condition = re.match(r"static_assert\s*\((.*)\)\s*;", source)
    if text == "static assertion failed" and condition:
        text = f"{text}: {condition[1]}"
    if block.file == PROGRAM_NAME:
        line = block.line
    else:
        line = next((f.line for f in frames if f.file == PROGRAM_NAME), 0)
        text += f" ({block.file}:{block.line})" if block.file else ""
    stack = (f"in {f.what} ({f.file}:{f.line})" for f in frames if f.what)
    notes = (*([source] if source else []), *context, *stack)
    return Diagnostic(line, block.severity, _cut(text), "nvrtc", tuple(_cut(n) for n in notes[:_MOST_NOTES]))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _split_block(lines: Sequence[str]) -> tuple[str, list[str], list[_Frame]]:
    """Return the source line under the headline, the explaining lines, and the template stack, innermost first."""
    source, context, frames, in_stack = "", [], [], False
    for index, line in enumerate(lines):
        note = _HEADLINE.match(line)
        in_stack = in_stack or line.strip().startswith("detected during")
        frame = _FRAME.fullmatch(line.strip()) if in_stack else None
        before_caret = index + 1 < len(lines) and _CARET.fullmatch(lines[index + 1])
        if frame:
            frames.append(_Frame(frame["what"].strip(), frame["file"], int(frame["line"])))
        elif note:
            context.append(f"{note['text']} ({note['file']}:{note['line']})")
        elif before_caret and not source:
            source = line.strip()
        elif not before_caret and not in_stack and not _CARET.fullmatch(line):
            context.append(line.strip())
    return source, context, frames


def _read_name_errors(blocks: Sequence[_FrontEndMessage], kernel: KernelFile) -> Iterator[Diagnostic]:
    """Read errors about the plan's kernel names, which NVRTC reports in a pseudo file, with the launch's line."""
    defined = ", ".join(find_global_functions(kernel.body)) or "no __global__ function"
    reason = ""
    for block in blocks:
        expression = _EXPRESSION.search(block.text)
        if expression is None:
            reason = reason or block.text
            continue
        wanted = _remove_spaces(expression[1]).removeprefix("::")
        found = next((x for x in kernel.instances() if _remove_spaces(x.kernel) == wanted), None)
        name = found.kernel if found else expression[1].strip().removeprefix("::")
        reason = reason or block.text[: expression.start()].strip(" .")
        if _UNKNOWN.match(reason):
            text = f"unknown kernel {name}: the file defines {defined}"
        else:
            text = f"kernel {name} cannot be made from what the file defines ({defined}): {reason}"
        yield Diagnostic(found.line if found else 0, "error", text, "nvrtc", (reason,))
        reason = ""


def _remove_spaces(expression: str) -> str:
    return re.sub(r"\s", "", expression)


def _read_ptxas_messages(log: str, kernel: KernelFile) -> Iterator[Diagnostic]:
    for line in log.splitlines():
        match = _PTXAS.match(line.strip())
        if match is None or "assembly aborted" in line:
            continue
        text = re.sub(r"0x[0-9a-f]+", lambda m: str(int(m[0], 16)), demangle_all(match["text"]))
        if match["severity"] in ("fatal", "error"):
            yield Diagnostic(_find_line(text, kernel), "error", text, "ptxas")
        elif _HINT.search(text):
            yield Diagnostic(_find_line(text, kernel), "hint", text, "ptxas")
        elif match["severity"] == "warning":
            yield Diagnostic(_find_line(text, kernel), "warning", text, "ptxas")


def _find_line(text: str, kernel: KernelFile) -> int:
    """Find the line that a message of ptxas is about, 0 if unknown.

    ptxas counts lines of generated code, but it quotes a kernel's name or text that stands on only one line.
    """
    defined = find_global_functions(kernel.body)
    for quoted in re.findall(r"'([^']+)'", text):
        name = re.search(r"(\w+)\s*(?:<.*>)?\(", quoted)
        if name and name[1] in defined:
            return kernel.body_line + kernel.body.count("\n", 0, defined[name[1]])
        lines = [i for i, line in enumerate(kernel.body.splitlines()) if quoted in line]
        if len(lines) == 1:
            return kernel.body_line + lines[0]
    return 0
