"""A unified diff for the original file: its kernels give way to the new one, its host function keeps its signature."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports.library import dropin
from cutegen_core.share.exports.library.facts import HostFunction, LibraryFacts, Original, count_lines
from cutegen_core.share.imports.plain_cu.source import SourceFile, split_file
from cutegen_core.share.imports.plain_cu.tokens import find_close, tokenize

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*\n", re.MULTILINE)


class Patch(NamedTuple):
    """A diff, and the lines of code of the files on both sides."""

    text: str
    before: int
    after: int


def patch(facts: LibraryFacts) -> Patch:
    """Return the diff for the original file, or for the existing kernel file where no original is given.

    Raises:
        UsageError: the original has no function of that name.
    """
    original = facts.original
    if original is None:
        name = f"{facts.bundle.name}.cu"
        return _diff(name, facts.bundle.problem.existing, facts.bundle.kernel.text)
    if facts.host is None:
        raise UsageError(
            f"the existing kernel was not imported from a plain .cu, so nothing says which function of {original.name} "
            "the kernel replaces; without --original the patch is for the existing kernel file"
        )
    return _diff(original.name, original.text, patched(facts, facts.host, original))


def patched(facts: LibraryFacts, host: HostFunction, original: Original) -> str:
    """Return the original file with the new kernel behind its host function."""
    source = split_file(original.name, original.text)
    function = source.hosts.get(host.function)
    if function is None:
        listed = ", ".join(source.hosts) or "none"
        raise UsageError(f"{original.name}: has no host function {host.function} (functions: {listed})")
    begin, end = source.ranges[function.name]
    opening = _body_of(source, begin, end)
    changes = [(opening, end, f"{{\n{dropin.body(facts)}}}")]
    changes += [(*source.ranges[kernel], "") for kernel in _replaced(facts, source, host)]
    at = max((match.end() for match in _INCLUDE.finditer(source.code)), default=0)
    changes.append((at, at, f"\n{dropin.support(facts)}\n"))
    text = original.text
    for first, last, new in sorted(changes, reverse=True):
        text = text[:first] + new + text[last:]
    return re.sub(r"\n{3,}", "\n\n", text)


def _body_of(source: SourceFile, begin: int, end: int) -> int:
    """Return where the braces of a function begin."""
    tokens = tokenize(source.code[begin:end], begin)
    index = 0
    while index < len(tokens) and tokens[index].text != "{":
        index = find_close(tokens, index) + 1 if tokens[index].text in "([" else index + 1
    return tokens[index].at if index < len(tokens) else end


def _replaced(facts: LibraryFacts, source: SourceFile, host: HostFunction) -> set[str]:
    """Return the kernels and helpers that only the replaced function uses.

    Raises:
        UsageError: a kernel of the original stays, and the new kernel has its name.
    """
    roots = set(source.hosts) - _reached(source, {host.function})
    kept = _reached(source, roots)
    stays = {name for name in source.kernels if name in kept}
    clash = next((launch.function for launch in facts.bundle.kernel.launches if launch.function in stays), "")
    if clash:
        raise UsageError(f"{source.name}: other functions launch {clash} too: give the new kernel another name")
    return (set(source.kernels) | set(source.hosts)) & _reached(source, {host.function}) - kept - {host.function}


def _reached(source: SourceFile, names: set[str]) -> set[str]:
    """Return the functions and macros that these use, themselves included."""
    bodies = {name: function.body for name, function in (source.hosts | source.kernels).items()}
    bodies |= {name: macro.body for name, macro in source.macros.items()}
    found = set(names)
    while more := {t.text for name in found for t in bodies.get(name, ())} & set(bodies) - found:
        found |= more
    return found


def _diff(name: str, old: str, new: str) -> Patch:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), _ended(new).splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return Patch("".join(_marked(line) for line in lines), count_lines(old), count_lines(new))


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _marked(line: str) -> str:
    """Mark a line without its end as `diff` does."""
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
