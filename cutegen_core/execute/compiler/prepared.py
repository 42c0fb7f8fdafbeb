"""Have a program's templates instantiated before an edit of it arrives: while a person reads, or a model writes.

1. A fork in the sandbox precompiles the program as a header (`parent_header`), says so, and waits.
2. The next program that may see that header is compiled in the same fork, which ends then: NVRTC's precompiled headers
   are valid in the process that made them only. Three to seven seconds are saved of a product's five to thirteen.
3. Only a success counts. Whatever else comes of it, the program is compiled as usual.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cutegen_core.execute.compiler.forks import CompileLimits, Fork
from cutegen_core.execute.compiler.nvrtc import Nvrtc, NvrtcResult
from cutegen_core.execute.compiler.parent_header import fits
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.records.errors import MachineError

HEADER = "cutegen_parent.cuh"
_PROLOGUE = f"#include <{HEADER}>\n"
_HEAP_BYTES = 2 << 30
_READY = b"+"
_IDLE_S = 1800.0

Send = Callable[[int, NvrtcResult, SandboxLevel, int], None]


class Prepared:
    """A fork that precompiles a program's header from now on.

    Args:
        program: the text that becomes the header, and `header` what `parent_header` makes of it.
        prologue: the line in front of every program.
        headers: those that NVRTC gets as text.
        send: writes a result to the pipe.
    """

    def __init__(
        self, nvrtc: Nvrtc, program: str, header: str, prologue: str, name: str, options: Sequence[str],
        headers: Mapping[str, str], send: Send, reads: Collection[Path], limits: CompileLimits, folder: Path,
    ) -> None:  # fmt: skip
        self._parent, self._headers, self._is_ready = program, headers, False
        own = {**headers, HEADER: prologue + header}
        asking, self._asking = os.pipe()

        def work(writing: int, level: SandboxLevel, temporary: Path) -> None:
            made = temporary / "parent.pch"
            nvrtc.set_pch_heap(_HEAP_BYTES)
            with suppress(MachineError):  # a program that is no such header
                nvrtc.create_pch(_PROLOGUE, name, options, made, own)
                os.write(writing, _READY)
                if request := _wait_for_request(asking):
                    text, names, log_bytes = json.loads(request)
                    done = nvrtc.compile(_PROLOGUE + text, name, [*options, f"-use-pch={made}"], names, own)
                    send(writing, done, level, log_bytes)

        twice = CompileLimits(2 * limits.seconds, limits.memory_bytes + _HEAP_BYTES, limits.log_bytes)
        try:
            self._fork = Fork(work, reads, twice, folder, keeps=(asking,))
        finally:
            os.close(asking)

    def compile(
        self, program: str, names: Sequence[str], limits: CompileLimits, headers: Mapping[str, str]
    ) -> tuple[bytes, int]:
        """Return what the fork sends, and its largest memory in bytes; nothing if it is not ready for this program."""
        answer, limit = b"", ""
        if self.is_ready() and headers == self._headers and fits(self._parent, program):
            with suppress(BrokenPipeError), os.fdopen(self._asking, "wb") as pipe:
                pipe.write(json.dumps((program, names, limits.log_bytes)).encode())
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
