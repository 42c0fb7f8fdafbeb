"""Say it where a file's own function or type has a name of CuTe's, and the compiler's messages are about that name.

`using namespace cute` makes both visible. The compiler then calls the name ambiguous, or takes CuTe's function as its
arguments are CuTe's tensors, and reports an error inside of CuTe that does not name the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.screening import blank_comments
from cutegen_core.records.trial import Diagnostic

_AMBIGUOUS = re.compile(r"['\"](\w+)['\"] is ambiguous")
_MENTIONED = re.compile(r"\bcute::(\w+)\(|overloaded function ['\"](?:cute::)?(\w+)['\"]")
_OWN = re.compile(r"\b__device__\b[^;{}()=]*?\b(\w+)\s*\(|\b(?:struct|class)\s+(\w+)\s*(?:final\s*)?[{:]")


def collisions(found: Sequence[Diagnostic], kernel: KernelFile) -> tuple[Diagnostic, ...]:
    """Return one message for each own name that an error is about, at the line that defines it."""
    own = dict(_own_names(kernel))
    errors = [each for each in found if each.severity == "error"]
    ambiguous = {name: each.line for each in errors for name in _AMBIGUOUS.findall(each.message)}
    mentioned = (name for each in errors for text in (each.message, *each.notes) for name in _names(text))
    lines = {**{name: own[name] for name in mentioned if name in own}, **ambiguous}
    return tuple(Diagnostic(own.get(name, line), "error", _words(name), "nvrtc") for name, line in lines.items())


def _own_names(kernel: KernelFile) -> Iterator[tuple[str, int]]:
    code = blank_comments(kernel.text)
    for match in _OWN.finditer(code):
        yield match[1] or match[2], code.count("\n", 0, match.end()) + 1


def _names(text: str) -> Iterator[str]:
    for match in _MENTIONED.finditer(text):
        yield match[1] or match[2]


def _words(name: str) -> str:
    return f"`{name}` is a name of CuTe's, too, which `using namespace cute` makes visible: give your own another name"
