"""Demangle C++ names with the demangler of the C++ runtime (Itanium ABI)."""

from __future__ import annotations

import ctypes
import functools
import re

from cutegen_core.records.errors import MachineError

_MANGLED = re.compile(r"\b_Z\w+")


def demangle(name: str) -> str:
    """Return `name` demangled, or unchanged if it is not a mangled name."""
    status = ctypes.c_int()
    pointer = _demangler()(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not pointer:
        return name
    text = ctypes.string_at(pointer).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(pointer))
    return text


def demangle_all(text: str) -> str:
    """Demangle every mangled name in a text."""
    return _MANGLED.sub(lambda match: demangle(match[0]), text)


@functools.cache
def _demangler() -> ctypes._NamedFuncPointer:
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError as error:
        raise MachineError("the C++ runtime libstdc++.so.6 is missing. Install it: apt install libstdc++6") from error
    function.restype = ctypes.c_void_p
    return function
