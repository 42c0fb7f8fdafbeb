"""Have a program's templates instantiated before an edit of it arrives: while a person reads, or a model writes.

1. A fork in the sandbox precompiles the program as a header, says so, and waits.
2. The next program that may see that header is compiled in the same fork, which ends then: NVRTC's precompiled headers
   are valid in the process that made them only. Three to seven seconds are saved of a product's five to thirteen.
3. Only a success counts. Whatever else comes of it, the program is compiled as usual.

In the header the program is part of a namespace of its own, and its kernels are functions that nobody calls. What would
still reach an edit from there (macros, variables, names in the libraries' namespaces) makes it no such header.
"""

from __future__ import annotations

import json
import os
import re
import select
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cutegen_core.execute.compiler.forks import CompileLimits, Fork, Work
from cutegen_core.execute.compiler.nvrtc import Nvrtc, NvrtcProgram, NvrtcResult
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.records.errors import MachineError

_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(\w*)(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]*[>\"]).*$", re.MULTILINE)
_HARMLESS = re.compile(r"[ \t]*(?:#|%:)[ \t]*(?:include\b|line\b|pragma[ \t]+unroll\b|$)")
_REACHES_OUT = re.compile(
    r'\bextern\s*"C"|(?<!using\s)\bnamespace\s+(?:cute|cutlass|cuda|std|__\w+)\b|__constant__|__managed__'
    # A variable of the device: __device__, and no parameter list before the end of the declaration.
    r"|__device__[^(){};=]*(?:=|;|\[|\{)"
    # Where a line that looks like a directive may be none, or the other way round.
    r'|\\\n|\bR"|/\*(?:[^*]|\*(?!/))*[#%]'
)
_KERNELS_ONLY = re.compile(
    r"__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\((?:[^()]|\([^()]*\))*\)|__grid_constant__"
)
NAMESPACE = "cutegen_parent"
HEADER = "cutegen_parent.cuh"
_PROLOGUE = f"#include <{HEADER}>\n"
_HEAP_BYTES = 2 << 30
_READY = b"+"
_IDLE_S = 1800.0

Send = Callable[[int, NvrtcResult, SandboxLevel, int], None]
Start = Callable[[Work, CompileLimits, Collection[int]], Fork]


def as_header(program: str, names: Sequence[str]) -> str:
    """Return the header, or "" where an edit could see more of the program than its templates.

    Args:
        names: the kernels that are compiled, with template arguments.
    """
    directives = [found[0] for found in _DIRECTIVE.finditer(program)]
    if _REACHES_OUT.search(program) or not all(map(_HARMLESS.match, directives)):
        return ""
    body = _DIRECTIVE.sub(lambda found: found[0] if found[1] == "pragma" else "", program)
    body = _KERNELS_ONLY.sub("", body).replace("__global__", "static __device__")
    uses = " ".join(f"(void)&{name};" for name in names)
    includes = "".join(f"#include {name}\n" for name in _INCLUDE.findall(program))
    return f"{includes}namespace {NAMESPACE} {{\n{body}\nstatic __device__ void use_kernels() {{ {uses} }}\n}}\n"


def fits(parent: str, program: str) -> bool:
    """Tell whether a program sees nothing of the parent's header that it would not see without.

    It includes whatever the parent includes, and declares nothing in the namespaces of libraries, where templates were
    instantiated before.
    """
    return set(_INCLUDE.findall(parent)) <= set(_INCLUDE.findall(program)) and not _REACHES_OUT.search(program)


class PreparedFork:
    """A fork that precompiles a program's header from now on.

    Args:
        parent: the program, which begins with the prologue.
        header: what `as_header` made of it.
        start: starts a fork of the server, with limits, which keeps some descriptors.
        send: writes a result to the pipe.
    """

    def __init__(
        self, nvrtc: Nvrtc, parent: NvrtcProgram, header: str, options: Sequence[str], limits: CompileLimits,
        start: Start, send: Send,
    ) -> None:  # fmt: skip
        self._parent, self._is_ready = parent, False
        own = {**parent.headers, HEADER: header}
        asking, self._asking = os.pipe()

        def work(writing: int, level: SandboxLevel, temporary: Path) -> None:
            made = temporary / "parent.pch"
            nvrtc.set_pch_heap(_HEAP_BYTES)
            with suppress(MachineError):  # a program that is no such header
                nvrtc.create_pch(replace(parent, text=_PROLOGUE, names=(), headers=own), options, made)
                os.write(writing, _READY)
                request = _wait_for_request(asking)
                if not request:
                    made.unlink()
                else:
                    text, names, log_bytes = json.loads(request)
                    edit = replace(parent, text=_PROLOGUE + text, names=names, headers=own)
                    send(writing, nvrtc.compile(edit, [*options, f"-use-pch={made}"]), level, log_bytes)

        twice = CompileLimits(2 * limits.seconds, limits.memory_bytes + _HEAP_BYTES, limits.log_bytes)
        try:
            self._fork = start(work, twice, (asking,))
        finally:
            os.close(asking)

    def compile(self, program: NvrtcProgram, limits: CompileLimits) -> tuple[bytes, int]:
        """Return what the fork sends, and its largest memory in bytes; nothing if it is not ready for this program.

        Args:
            program: begins with the prologue, too.
        """
        answer, limit = b"", ""
        if self.is_ready() and program.headers == self._parent.headers and fits(self._parent.text, program.text):
            with suppress(BrokenPipeError), os.fdopen(self._asking, "wb") as pipe:
                pipe.write(json.dumps((program.text, program.names, limits.log_bytes)).encode())
            self._asking = -1
            answer, limit = self._fork.read(limits)
        _, peak_bytes = self.end()
        return (b"" if limit else answer), peak_bytes

    def is_ready(self) -> bool:
        """Tell whether the header was precompiled."""
        if not self._is_ready and select.select([self._fork.reading], [], [], 0)[0]:
            self._is_ready = os.read(self._fork.reading, 1) == _READY
        return self._is_ready

    def end(self) -> tuple[int, int]:
        """End the fork, whatever it does."""
        if self._asking >= 0:
            os.close(self._asking)
        return self._fork.end()


def _wait_for_request(asking: int) -> bytes:
    """Return what is asked, or nothing: the other end was closed, or nobody asked for half an hour."""
    there, _, _ = select.select([asking], [], [], _IDLE_S)
    if not there:
        return b""
    with os.fdopen(asking, "rb") as pipe:
        return pipe.read()
