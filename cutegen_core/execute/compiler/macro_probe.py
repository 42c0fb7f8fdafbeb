"""Ask NVIDIA's compiler whether it gives a kernel file's names the meaning that another compiler gives them.

The macros of a compiler and its headers cannot be listed with NVRTC, but they can be asked for: directives below the
code warn about a macro that is missing or that was not expected, and a second definition with other text draws a
warning. Directives make no code, so this costs nothing but the reading. The names that the file itself defines are
asked for above the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_FILE = "cutegen-macros/"
_SENTINEL = "CUTEGEN_SENTINEL"
_MESSAGE = re.compile(rf"^{_FILE}(?P<name>\w+)\(\d+\): [^\n]*\n(?:[^\n]+\n)*\n?", re.MULTILINE)
_REMARK = re.compile(r"^Remark: The warnings can be suppressed[^\n]*\n\n?", re.MULTILINE)
_NUMBER = re.compile(r" [0-9]+[uUlL]*")
_WORD = re.compile(r"[^\W\d]\w*")
_NO_MACROS = frozenset(("__VA_ARGS__", "defined"))
SUPPRESSED = "#pragma"
"""Stands for names that could not be asked for, since the file switches the compiler's warnings off."""


class Probe(NamedTuple):
    """Directives to put above and below a program's code."""

    above: str
    below: str


class ProbeAnswer(NamedTuple):
    """The log without the probe's messages, and the names whose macros differ."""

    log: str
    differing: frozenset[str]


def write_probe(names: Iterable[str], own: frozenset[str], table: Mapping[str, str], harmless: frozenset[str]) -> Probe:
    """Write the directives.

    Args:
        names: every identifier of the file.
        own: those that the file defines as macros.
        table: the other compiler's macros: name -> what follows it in its definition, such as "(x) ((x) + 1)".
        harmless: macros that both have and that mean the same, although they are spelled differently.
    """
    harmless |= _NO_MACROS
    asked = _close(set(names) - harmless, table, harmless)
    above = [line for name in sorted(asked & own) for line in _ask(name, table)]
    below = [line for name in sorted(asked - own) for line in _ask(name, table)]
    guard = (_begin(_SENTINEL), f"#undef {_SENTINEL}", f"#define {_SENTINEL} 1", f"#define {_SENTINEL} 2", "#warning")
    return Probe("\n".join((*above, "")), "\n".join(("", *guard, *below, *guard, "")))


def read_answer(log: str) -> ProbeAnswer:
    """Separate the probe's messages from the log of a successful or failed compile."""
    found = [match["name"] for match in _MESSAGE.finditer(log)]
    differing = frozenset(found) - {_SENTINEL}
    if found.count(_SENTINEL) < 4 and not _has_errors(log):
        differing |= {SUPPRESSED}
    return ProbeAnswer(_MESSAGE.sub("", _REMARK.sub("", log) if found else log), differing)


def _has_errors(log: str) -> bool:
    return re.search(r"\): (?:catastrophic )?error", log) is not None


def _close(names: set[str], table: Mapping[str, str], harmless: frozenset[str]) -> set[str]:
    """Add the names that the macros among them are made of."""
    found, new = set(names), set(names)
    while new:
        words = {word for name in new if name in table for word in _WORD.findall(table[name])}
        new = words - found - harmless
        found |= new
    return found


def _begin(name: str) -> str:
    """Return a directive that makes the messages about the next lines name a macro."""
    return f'#line 1 "{_FILE}{name}"'


def _ask(name: str, table: Mapping[str, str]) -> Iterator[str]:
    yield _begin(name)
    if name not in table:
        yield from (f"#ifdef {name}", "#warning", "#endif")
        return
    if "#" in table[name]:  # it spells or pastes its arguments, which no second definition shows
        yield "#warning"
        return
    yield from (f"#ifndef {name}", "#warning")
    if _NUMBER.fullmatch(table[name]):  # also for predefined macros, which cannot be defined again
        yield from (f"#elif {name} != {table[name]}", "#warning", "#endif")
    else:
        yield from ("#else", f"#define {name}{table[name]}", "#endif")
