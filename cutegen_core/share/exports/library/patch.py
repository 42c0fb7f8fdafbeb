"""A unified diff for the original file: its kernels give way to the new one, its host function keeps its signature."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports.library import dropin
from cutegen_core.share.exports.library.facts import HostFunction, LibraryFacts, Original, count_lines
from cutegen_core.share.imports.plain_cu.directives import read_directives
from cutegen_core.share.imports.plain_cu.source import SourceFile, split_file
from cutegen_core.share.imports.plain_cu.tokens import find_close, tokenize

_OPENING = re.compile(
    r"\s*(?:#[ \t]*pragma[ \t]+once\b[^\n]*\n|#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*\n)?"
)
"""Opening comments, which are blank here, and a guard against being included twice."""


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
    """Return the original file with the new kernel behind its host function.

    Raises:
        UsageError: the file does not declare that function as it was imported.
    """
    source = split_file(original.name, original.text)
    function = source.hosts.get(host.function)
    if function is None:
        listed = ", ".join(source.hosts) or "none"
        raise UsageError(f"{original.name}: has no host function {host.function} (functions: {listed})")
    if _packed(function.head) != _packed(host.head) or function.scope != host.scope:
        raise UsageError(
            f"{original.name}: {function.qualified} is declared as `{function.head}`, but the kernel was imported from "
            f"`{host.head}`: import the file again (of functions of one name, only the last can be replaced)"
        )
    begin, end = source.ranges[function.name]
    opening = _body_of(source, begin, end)
    changes = [(opening, end, f"{{\n{dropin.body(facts)}}}")]
    changes += [(*source.ranges[kernel], "") for kernel in _replaced(source, host)]
    # In front of everything: no macro of the file, and no option that its first include fixes, reaches the new code.
    opened = _OPENING.match(source.code)
    at = opened.end() if opened else 0
    changes.append((at, at, f"\n{dropin.support(facts)}\n"))
    text = original.text
    for first, last, new in sorted(changes, reverse=True):
        text = text[:first] + new + text[last:]
    return re.sub(r"\n{3,}", "\n\n", text)


def _packed(head: str) -> str:
    return re.sub(r"\s", "", head)


def _body_of(source: SourceFile, begin: int, end: int) -> int:
    """Return where the braces of a function begin."""
    tokens = tokenize(source.code[begin:end], begin)
    index = 0
    while index < len(tokens) and tokens[index].text != "{":
        index = find_close(tokens, index) + 1 if tokens[index].text in "([" else index + 1
    return tokens[index].at if index < len(tokens) else end


def _replaced(source: SourceFile, host: HostFunction) -> set[str]:
    """Return the kernels and host functions that nothing but the replaced function uses."""
    functions = set(source.kernels) | set(source.hosts)
    used = _reached(source, {host.function}) & functions
    roots = set(source.hosts) - used | _named_outside(source) & functions
    return used - _reached(source, roots - {host.function}, without=host.function) - {host.function}


def _named_outside(source: SourceFile) -> set[str]:
    """Return the words of the file outside of its functions: tables, bindings, explicit instantiations."""
    bare = list(read_directives(source.text, source.code).bare)
    for begin, end in source.ranges.values():
        bare[begin:end] = " " * (end - begin)
    return {token.text for token in tokenize("".join(bare))}


def _reached(source: SourceFile, names: set[str], without: str = "") -> set[str]:
    """Return the functions and macros that these use, themselves included; not through the one named `without`."""
    functions = source.hosts | source.kernels
    bodies = {name: function.body for name, function in functions.items() if name != without}
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
