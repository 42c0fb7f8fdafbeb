"""Serve compile requests: a process that loads NVRTC, precompiles the headers, and forks once per candidate.

1. The first program is compiled without a precompiled prelude. Whoever asked has the answer when the prelude is
   precompiled for those that follow: it takes as long as two small programs, and is valid in this process and its
   forks only (NVRTC's heap must lie at the same address).
2. A fork compiles each candidate. It enters the sandbox first: it can read only the toolchain's headers, write one
   temporary folder, start no process, and has limits of time and memory.
3. The fork sends log, lowered names and cubin through a pipe and ends. Its failure does not affect the server.

The server compiles one candidate at a time: the front end already uses a core, and each fork may need gigabytes. It
does not use the precompiled prelude for tensor-core kernels: the prelude's heap is a file in memory, where their
template instantiation (2 GB) takes 26 instead of 16 s. Small kernels gain most from it
(benchmarks/toolchain/compile.py). Nor for programs that need the headers it leaves out (`lean_cute`).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import re
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutegen_core.execute.compiler import lean_cute, nvrtc
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox import confine, sandbox
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel
from cutegen_core.machine.worker import Message, serve
from cutegen_core.records.errors import MachineError

PRELUDE = Path(__file__).parent / "prelude"
PROLOGUE = "#include <cutegen_prelude.cuh>\n"
PROGRAM_NAME = "cutegen_parameters.cu"
ONCE = "once"

_PCH_HEAP_BYTES = 400 << 20
_POLL_S = 0.05
_SHARED_MEMORY, _TEMPORARY = Path("/dev/shm"), "cutegen-compile-"
_TENSOR_CORES = re.compile(r"\b(?:MMA_Atom|TiledMMA|make_tiled_mma)\b")
_LARGEST_ANSWER_BYTES = 256 << 20
_ADDRESS_SPACE_SLACK_BYTES = 1 << 30


@dataclass(frozen=True)
class CompileLimits:
    """The limits of compiling one candidate.

    Attributes:
        seconds: processor time.
        memory_bytes: resident memory in addition to the server's own.
        log_bytes: size to which the compiler's log is cut.
    """

    seconds: float = 120.0
    memory_bytes: int = 4 << 30
    log_bytes: int = 1 << 20


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
    """The server; it answers {"op": "warm"} and {"op": "compile", "program", "names", "limits"}."""

    def __init__(self, arch: str, folder: Path) -> None:
        _remove_leftovers(folder)
        self._folder = folder / str(os.getpid())
        self._folder.mkdir(parents=True)
        self._pch = self._folder / "prelude.pch"
        self._options = compile_options(arch)
        self._lean = lean_cute.read_lean(toolchain.find_include_dirs()[0])
        self._nvrtc = nvrtc.Nvrtc(toolchain.find_nvrtc(), toolchain.find_nvrtc_builtins())
        self._nvrtc.set_pch_heap(_PCH_HEAP_BYTES)
        self._has_compiled = False

    def handle(self, request: Message) -> Message:
        if request["op"] == "warm":
            self.warm()
            return {"nvrtc": self._nvrtc.version()}
        if self._has_compiled:
            self.warm()
        self._has_compiled = True
        return self._compile(request["program"], request["names"], CompileLimits(**request["limits"]))

    def warm(self) -> None:
        """Precompile the prelude, unless that is done."""
        if not self._pch.exists():
            headers = {**self._lean, **lean_cute.leave_out(PROLOGUE)}
            self._nvrtc.create_pch(PROLOGUE, PROGRAM_NAME, self._options, self._pch, headers)

    def warm_after_first(self) -> None:
        """Precompile the prelude once a program was compiled; if that fails, the next request says so."""
        if self._has_compiled:
            with contextlib.suppress(MachineError):
                self.warm()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self, program: str, names: Sequence[str], limits: CompileLimits) -> Message:
        started = time.monotonic()
        base_bytes = _resident_bytes(os.getpid())
        temporary = Path(
            tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-", dir=_choose_heap_folder(limits, self._folder))
        )
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._run_fork(program, names, limits, writing, temporary)
        os.close(writing)
        try:
            answer, limit = _read_answer(reading, pid, limits, base_bytes + limits.memory_bytes)
        finally:
            os.close(reading)
            sandbox.kill_group(pid)
            os.kill(pid, signal.SIGKILL)  # it may not have created its process group yet
            _, status, usage = os.wait4(pid, 0)
            shutil.rmtree(temporary, ignore_errors=True)
        seconds, peak_bytes = time.monotonic() - started, usage.ru_maxrss * 1024 - base_bytes
        spent: Message = {"seconds": seconds, "peak_bytes": max(0, peak_bytes)}
        if not limit and answer:
            return spent | _decode_answer(answer)
        return spent | _describe_failure(limit, os.waitstatus_to_exitcode(status))

    def _run_fork(
        self, program: str, names: Sequence[str], limits: CompileLimits, writing: int, temporary: Path
    ) -> None:
        """Compile in the fork and end its process; never returns."""
        try:
            os.setpgid(0, 0)
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: die with the server
            os.environ["TMPDIR"] = str(temporary)
            os.chdir(temporary)
            _close_all_but(writing)
            level = confine.apply(self._policy(limits, temporary))
            without = lean_cute.leave_out(program)
            options = [*self._options, *(self._precompiled(program) if without else ())]
            done = self._nvrtc.compile(PROLOGUE + program, PROGRAM_NAME, options, names, {**self._lean, **without})
            _send(writing, done, level, limits.log_bytes)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a fork must not return to the server's loop
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _precompiled(self, program: str) -> tuple[str, ...]:
        return (f"-use-pch={self._pch}",) if self._pch.exists() and not _TENSOR_CORES.search(program) else ()

    def _policy(self, limits: CompileLimits, temporary: Path) -> Policy:
        return Policy(
            read=(PRELUDE, *toolchain.find_include_dirs(), *([self._pch] if self._pch.exists() else [])),
            write=(temporary,),
            memory_bytes=_address_space_bytes() + limits.memory_bytes + _ADDRESS_SPACE_SLACK_BYTES,
            cpu_seconds=int(limits.seconds) + 1,
            file_bytes=limits.memory_bytes,  # the compiler's heap is a file, and grows
        )


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


def _read_answer(fd: int, pid: int, limits: CompileLimits, memory_bytes: int) -> tuple[bytes, str]:
    """Return the fork's answer and the limit that it exceeded ("", "time", "memory" or "output")."""
    answer = bytearray()
    deadline = time.monotonic() + limits.seconds * sandbox.PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while True:
            if _processor_seconds(pid) > limits.seconds or time.monotonic() > deadline:
                return b"", "time"
            if _resident_bytes(pid) > memory_bytes:
                return b"", "memory"
            if not selector.select(_POLL_S):
                continue
            chunk = os.read(fd, 1 << 20)
            if not chunk:
                return bytes(answer), ""
            answer += chunk
            if len(answer) > _LARGEST_ANSWER_BYTES:
                return b"", "output"


def _close_all_but(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd != kept:
            try:
                os.close(fd)
            except OSError:
                continue  # the descriptor of the listing itself


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a child that was not waited for."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    return _read_statm(pid, 1)


def _address_space_bytes() -> int:
    return _read_statm(os.getpid(), 0)


def _choose_heap_folder(limits: CompileLimits, folder: Path) -> Path:
    """Return the folder for a compiler's heap: in memory if enough is free for its limit, otherwise on disk.

    Memory is better, because a process that writes gigabytes to a disk cannot be killed before they are written.
    """
    there = _SHARED_MEMORY.is_dir() and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return _SHARED_MEMORY if there and shutil.disk_usage(_SHARED_MEMORY).free > limits.memory_bytes else folder


def _read_statm(pid: int, field: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")


def _remove_leftovers(folder: Path) -> None:
    """Remove precompiled headers (283 MB each) and heaps of servers that were killed."""
    old = [(path, path.name) for path in folder.glob("[0-9]*")]
    old += [(path, path.name.removeprefix(_TEMPORARY).split("-")[0]) for path in _SHARED_MEMORY.glob(f"{_TEMPORARY}*")]
    for path, pid in old:
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Serve as `python -m cutegen_core.execute.compiler.compile_server ARCH FOLDER [once]`, for `compilation.Compiler`.

    Where only one program is expected, the prelude is precompiled when a second one comes.
    """
    server, once = Server(sys.argv[1], Path(sys.argv[2])), sys.argv[3:] == [ONCE]

    def answer(request: Message) -> Message:
        try:
            return server.handle(request)
        except MachineError as error:
            return {"machine_error": str(error)}

    try:
        serve(answer, (lambda: None) if once else server.warm_after_first)
    finally:
        server.close()


if __name__ == "__main__":
    main()
