"""List the macros that the emulator's compiler and headers define for a kernel file, and those that may differ.

The list depends on the headers that the file includes besides the prelude's. It is made once for each set of headers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cutegen_core.execute.emulator.compiling import run_compiler
from cutegen_core.execute.emulator.installation import Installation
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.records.errors import MachineError

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>)", re.MULTILINE)
_DEFINITION = re.compile(r"#define (\w+)(.*)")
_NAME = re.compile(r"[^\W\d]\w*")
_TIMEOUT_S = 60.0

_LIMITS = "CHAR SCHAR SHRT INT LONG LLONG INT8 INT16 INT32 INT64 INTMAX INTPTR PTRDIFF"
_UNSIGNED = "UCHAR USHRT UINT ULONG ULLONG UINT8 UINT16 UINT32 UINT64 UINTMAX UINTPTR SIZE"
_SIZED = [f"{kind}{bits}" for kind in ("INT", "INT_FAST", "INT_LEAST") for bits in (8, 16, 32, 64)]
HARMLESS = frozenset((
    "CHAR_BIT", "NULL", "INFINITY", "NAN", "HUGE_VAL", "HUGE_VALF", "assert", "offsetof",
    *(f"{name}_{end}" for name in (*_LIMITS.split(), *_SIZED) for end in ("MAX", "MIN")),
    *(f"{name}_MAX" for name in (*_UNSIGNED.split(), *(f"U{name}" for name in _SIZED))),
    *(f"{sign}INT{bits}_C" for sign in ("", "U") for bits in ("8", "16", "32", "64", "MAX")),
    *(f"{kind}_{end}" for kind in ("FLT", "DBL") for end in ("MAX", "MIN", "EPSILON")),
    "__device__", "__global__", "__host__", "__constant__", "__managed__", "__grid_constant__", "__shared__",
    "__forceinline__", "__noinline__", "__align__", "__launch_bounds__", "__maxnreg__", "__cluster_dims__",
    "__block_size__", "__restrict__",
    "CUTE_DEVICE", "CUTE_HOST", "CUTE_HOST_DEVICE", "CUTE_HOST_RTC", "CUTE_ALIGNAS", "CUTE_GRID_CONSTANT",
    "CUTE_INLINE_CONSTANT", "CUTE_GCC_UNREACHABLE", "CUTE_UNROLL", "CUTE_NO_UNROLL", "CUTLASS_DEVICE",
    "CUTLASS_HOST_DEVICE", "CUTLASS_PRAGMA_UNROLL", "CUTLASS_PRAGMA_NO_UNROLL", "CUTLASS_GEMM_LOOP", "CUTLASS_UNUSED",
    "CUTLASS_NOT_IMPLEMENTED", "CUTLASS_GCC_UNREACHABLE",
))  # fmt: skip
"""Macros of both compilers that mean the same although they are spelled differently."""
ONLY_CALLED = frozenset(("clock", "__assume", "__builtin_assume"))
"""Macros of one compiler that stand for functions of the other; harmless outside of conditions."""


def list_macros(installed: Installation, cache: Path, kernel: KernelFile) -> Mapping[str, str]:
    """Return name -> rest of its definition, after the headers that the file includes.

    Raises:
        MachineError: the compiler cannot list them.
    """
    headers = sorted(set(_INCLUDE.findall(kernel.body)))
    entry = cache / "macros" / hashlib.sha256(f"{installed.headers.name} {headers}".encode()).hexdigest()
    if not entry.exists():
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=entry.parent, delete=False) as file:
            json.dump(_ask(installed, entry.parent, headers), file)
        os.replace(file.name, entry)
    found: dict[str, str] = json.loads(entry.read_text())
    return found


def list_pasted(installed: Installation, cache: Path, kernel: KernelFile) -> frozenset[str]:
    """Return the identifiers of a file whose `##` are carried out, with no macros but its own."""
    text = "".join(line for line in kernel.body.splitlines(keepends=True) if not _INCLUDE.match(line))
    printed = _preprocess(installed, cache, text, ["-undef", "-P"], prelude=False)
    return frozenset(_NAME.findall(printed))


def _ask(installed: Installation, folder: Path, headers: Sequence[str]) -> dict[str, str]:
    text = "".join(f"#include {header}\n" for header in headers)
    printed = _preprocess(installed, folder, text, ["-dM"], prelude=True)
    found = {match[1]: match[2] for match in map(_DEFINITION.fullmatch, printed.splitlines()) if match}
    if "__CUDA_ARCH__" not in found and headers:
        return _ask(installed, folder, ())  # a header that is not there: the compilers will say so
    return found


def _preprocess(installed: Installation, folder: Path, text: str, options: Sequence[str], *, prelude: bool) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="macros-", dir=folder) as made:
        scratch = Path(made)
        (scratch / "candidate.cpp").write_text(text)
        compiler = installed.compiler
        headers = [*installed.include_flags, "-include-pch", str(installed.prelude)] if prelude else []
        flags = [*compiler.candidate_flags(), *headers, *options]
        command = [*compiler.compile, *flags, "-E", "candidate.cpp", "-o", "macros"]
        done = run_compiler(installed, command, scratch, _TIMEOUT_S)
        if done.returncode != 0 and prelude and not text:
            raise MachineError(f"the emulator's compiler cannot list its macros:\n{done.output[-1000:]}")
        return (scratch / "macros").read_text() if (scratch / "macros").exists() else ""
