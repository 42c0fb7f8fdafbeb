"""Serve compile requests: a process that loads NVRTC, precompiles the headers, and forks once per candidate.

1. The first program is compiled without a precompiled prelude. Whoever asked has the answer when the prelude is
   precompiled for those that follow: it takes as long as two small programs, and is valid in this process and its
   forks only (NVRTC's heap must lie at the same address).
2. A fork compiles each candidate. It enters the sandbox first: it can read only the toolchain's headers, write one
   temporary folder, start no process, and has limits of time and memory.
3. The fork sends log, lowered names and cubin through a pipe and ends. Its failure does not affect the server.
4. On a machine with room, another fork instantiates a program's templates for an edit of it (`prepared`).

The server compiles one candidate at a time: the front end already uses a core, and each fork may need gigabytes. It
does not use the precompiled prelude for tensor-core kernels: the prelude's heap is a file in memory, where their
template instantiation (2 GB) takes 26 instead of 16 s. Small kernels gain most from it
(benchmarks/toolchain/compile.py). Nor for programs that need the headers it leaves out (`lean_cute`).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from cutegen_core.execute.compiler import lean_cute, nvrtc
from cutegen_core.execute.compiler.forks import CompileLimits, Fork, Work, remove_leftovers
from cutegen_core.execute.compiler.nvrtc import NvrtcProgram
from cutegen_core.execute.compiler.prepared import PreparedFork, as_header
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.machine.worker import Message, serve
from cutegen_core.records.errors import MachineError

PRELUDE = Path(__file__).parent / "prelude"
PROLOGUE = "#include <cutegen_prelude.cuh>\n"
PROGRAM_NAME = "cutegen_parameters.cu"
ONCE, PREPARES = "once", "prepares"
WORTH_PREPARING_S = 3.0
"""How long a program takes to compile that is worth preparing for edits: as long again, and up to 2 GB."""

_PCH_HEAP_BYTES = 400 << 20
_TENSOR_CORES = re.compile(r"\b(?:MMA_Atom|TiledMMA|make_tiled_mma)\b")


def include_dirs() -> tuple[Path, ...]:
    """Return the only folders that a candidate may include from; the prelude's own come first."""
    return (PRELUDE, PRELUDE / "std", *toolchain.find_include_dirs())


def compile_options(arch: str) -> tuple[str, ...]:
    """Return the compiler options of every candidate; a precompiled header is valid only with exactly these."""
    return (
        "-std=c++17", f"-arch={arch}", "-default-device", "-lineinfo", "-Xptxas=-v", "-pch-messages=false",
        *(f"-I{folder}" for folder in include_dirs()),
    )  # fmt: skip


class Server:
    """The server; it answers {"op": "warm"} and {"op": "compile", "program", "names", "limits", "plain"}.

    Args:
        prepares: it has a program's templates ready for an edit, where compiling took long.
    """

    def __init__(self, arch: str, folder: Path, *, prepares: bool = False) -> None:
        remove_leftovers(folder)
        self._folder = folder / str(os.getpid())
        self._folder.mkdir(parents=True)
        self._pch = self._folder / "prelude.pch"
        self._options = compile_options(arch)
        self._lean = lean_cute.read_lean(toolchain.find_include_dirs()[0])
        self._nvrtc = nvrtc.Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
        self._nvrtc.set_pch_heap(_PCH_HEAP_BYTES)
        self._has_compiled = False
        self._prepares = prepares
        self._prepared: PreparedFork | None = None
        self._parent: tuple[NvrtcProgram, CompileLimits] | None = None

    def handle(self, request: Message) -> Message:
        if request["op"] == "warm":
            self.warm()
            return {"nvrtc": self._nvrtc.version()}
        if self._has_compiled:
            self.warm()
        self._has_compiled = True
        names, limits = request["names"], CompileLimits(**request["limits"])
        answer = self._compile(self._program(request["program"], names), limits)
        worth = answer.get("prepared") or answer["seconds"] > WORTH_PREPARING_S
        if self._prepares and worth and answer.get("code") == nvrtc.SUCCESS:
            self._parent = (self._program(request["plain"], names), limits)
        return answer

    def warm(self) -> None:
        """Precompile the prelude, unless that is done."""
        if not self._pch.exists():
            self._nvrtc.create_pch(self._program(""), self._options, self._pch)

    def prepare_for_others(self) -> None:
        """Precompile the prelude once a program was compiled, and begin to prepare for an edit of that program.

        If the former fails, the next request says so.
        """
        if self._has_compiled:
            with contextlib.suppress(MachineError):
                self.warm()
        self._prepare()

    def close(self) -> None:
        if self._prepared:
            self._prepared.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self, program: NvrtcProgram, limits: CompileLimits) -> Message:
        started = time.monotonic()
        if answer := self._compile_prepared(program, limits):
            return answer | {"seconds": time.monotonic() - started}

        def work(writing: int, level: SandboxLevel, _: Path) -> None:
            options = [*self._options, *self._precompiled(program.text)]
            _send(writing, self._nvrtc.compile(program, options), level, limits.log_bytes)

        fork = self._start(work, limits)
        try:
            sent, limit = fork.read(limits)
        finally:
            exit_code, peak_bytes = fork.end()
        spent: Message = {"seconds": time.monotonic() - started, "peak_bytes": peak_bytes}
        if not limit and sent:
            return spent | _decode_answer(sent)
        return spent | _describe_failure(limit, exit_code)

    def _compile_prepared(self, program: NvrtcProgram, limits: CompileLimits) -> Message:
        """Return the answer of the fork that is prepared for an edit, if there is one and it succeeds; else nothing."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return {}
        if not prepared.is_ready():
            self._parent = None
        sent, peak_bytes = prepared.compile(program, limits)
        answer = _decode_answer(sent) if sent else {}
        whole = answer.get("code") == nvrtc.SUCCESS and answer["log_bytes"] <= limits.log_bytes
        return answer | {"peak_bytes": peak_bytes, "prepared": True} if whole else {}

    def _prepare(self) -> None:
        """Begin to precompile the templates of the last program that was worth it, for an edit of it."""
        if self._prepared or not self._parent:
            return
        program, limits = self._parent
        if header := as_header(program.text, program.names):
            self._prepared = PreparedFork(self._nvrtc, program, header, self._options, limits, self._start, _send)

    def _start(self, work: Work, limits: CompileLimits, keeps: Collection[int] = ()) -> Fork:
        reads = (PRELUDE, *toolchain.find_include_dirs(), *([self._pch] if self._pch.exists() else []))
        return Fork(work, reads, limits, self._folder, keeps)

    def _program(self, text: str, names: Sequence[str] = ()) -> NvrtcProgram:
        headers = {**self._lean, **lean_cute.leave_out(text)}
        return NvrtcProgram(PROLOGUE + text, PROGRAM_NAME, names, headers)

    def _precompiled(self, program: str) -> tuple[str, ...]:
        usable = self._pch.exists() and lean_cute.leave_out(program) and not _TENSOR_CORES.search(program)
        return (f"-use-pch={self._pch}",) if usable else ()


def _send(fd: int, done: nvrtc.NvrtcResult, level: SandboxLevel, log_bytes: int) -> None:
    log = done.log.encode()
    head: dict[str, Any] = {
        "code": done.code,
        "log": log[:log_bytes].decode(errors="replace"),
        "log_bytes": len(log),
        "lowered": dict(done.lowered),
        "sandbox": level,
    }
    with os.fdopen(fd, "wb") as pipe:
        pipe.write(json.dumps(head).encode() + b"\n" + done.cubin)


def _decode_answer(answer: bytes) -> Message:
    head, _, cubin = answer.partition(b"\n")
    fields: Message = json.loads(head)
    return fields | {"limit": "", "cubin": base64.b64encode(cubin).decode()}


def _describe_failure(limit: str, exit_code: int) -> Message:
    if not limit and -exit_code == signal.SIGXCPU:
        limit = "time"
    return {"limit": limit, "exit_code": exit_code}


def main() -> None:
    """Serve as `python -m cutegen_core.execute.compiler.compile_server ARCH FOLDER [HOW]`, for `compilation.Compiler`.

    HOW is `once` where only one program is expected: the prelude is precompiled when a second one comes. It is
    `prepares` where the machine has room to prepare for edits.
    """
    arch, folder, *how = sys.argv[1:]
    server, once = Server(arch, Path(folder), prepares=PREPARES in how), ONCE in how

    def answer(request: Message) -> Message:
        try:
            return server.handle(request)
        except MachineError as error:
            return {"machine_error": str(error)}

    try:
        serve(answer, (lambda: None) if once else server.prepare_for_others)
    finally:
        server.close()


if __name__ == "__main__":
    main()
