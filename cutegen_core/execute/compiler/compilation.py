"""Compile a kernel file to a cubin with NVIDIA's compiler and report its resources (stage COMPILE); needs no GPU.

1. `includes` refuses directives that reach outside the toolchain.
2. The cache is looked up by content: the program, the plan's kernel names, the options, every tool's version.
3. If it has no entry, a compile server compiles in a sandboxed fork (`compile_server`), one candidate at a time;
   threads that compile at the same time get further servers (`server_pool`).
4. `compile_log` maps the log to the candidate's lines, `ptxas` reads registers and spills, `disassembly` disassembles
   the cubin.
Passes and compile errors are cached because they are deterministic; limits and crashes are not.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cutegen_core.execute.compiler import compile_server, disassembly, lean_cute, ptxas
from cutegen_core.execute.compiler.compile_log import fold
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.compiler.forks import TEMPORARY, CompileLimits
from cutegen_core.execute.compiler.includes import check_includes
from cutegen_core.execute.compiler.macro_probe import Probe, read_answer
from cutegen_core.execute.compiler.nvrtc import OUT_OF_MEMORY, SUCCESS
from cutegen_core.execute.compiler.server_pool import ServerPool, count_servers, has_room_to_prepare
from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import KernelFile, find_global_functions
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.worker import Message, Worker
from cutegen_core.machine.workspace import cache_dir
from cutegen_core.records import as_json
from cutegen_core.records.candidate import content_key
from cutegen_core.records.errors import MachineError, StoreError, WorkerLimitError
from cutegen_core.records.trial import Diagnostic, KernelResources, Status

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")

_FORMAT = 2
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SERVER_START_S = 120.0
_HEAP_FOLDER = re.compile(rf'"[^"\n]*/{TEMPORARY}[^/"\n]*/')
"""The folder of the compiler's temporary files, in front of the names of headers that it got as text."""


@dataclass(frozen=True)
class CompileResult:
    """The result of a compile.

    Attributes:
        status: PASSED, COMPILE_ERROR or COMPILE_LIMIT.
        log: the compilers' messages, paths of the toolchain shortened, at most `CompileLimits.log_bytes`.
        kernels: resources of each kernel of the plan; `kernel` is the plan's name expression.
        sass: machine code as text.
        lowered: name expression -> mangled name in the cubin.
        seconds: wall-clock time of this answer.
        cached: whether it came from the cache.
        message: the verdict in one line, "" when PASSED.
        differing: names of the file whose macros differ from those that the compile's probe expects.
    """

    status: Status
    diagnostics: tuple[Diagnostic, ...] = ()
    log: str = ""
    kernels: tuple[KernelResources, ...] = ()
    cubin: bytes = b""
    sass: str = ""
    lowered: Mapping[str, str] | None = None
    seconds: float = 0.0
    cached: bool = False
    message: str = ""
    differing: tuple[str, ...] = ()


NO_PROBE = Probe("", "")
OnCode = Callable[[CompileResult], object]


class Compiler:
    """Compiler for one architecture. Threads may share it; `close` ends its servers.

    Attributes:
        most_servers: how many threads it serves at a time; others wait.
    """

    def __init__(
        self,
        arch: str,
        cache: Path | None = None,
        limits: CompileLimits | None = None,
        most_servers: int | None = None,
        *,
        once: bool = False,
        prepares: bool | None = None,
    ) -> None:
        """Check the architecture; starts no process yet. The machine decides about the servers unless told.

        Args:
            once: one program is expected, so that nothing is prepared for others.
            prepares: an edit of what compiled for long is prepared for; by default where the machine has room for that.

        Raises:
            MachineError: a package of the toolchain is missing, or `arch` is not one of ARCHITECTURES.
        """
        if arch not in ARCHITECTURES:
            raise MachineError(f"{arch} is not an architecture the workbench knows: {', '.join(ARCHITECTURES)}.")
        self.arch = arch
        self.limits = limits or CompileLimits()
        self._cache = cache or cache_dir("compile")
        self._fingerprint = repr(
            (_FORMAT, arch, compile_server.compile_options(arch), _prelude_key(), toolchain.installed_versions())
        )
        self.most_servers = most_servers or count_servers()
        prepares = has_room_to_prepare() if prepares is None else prepares
        self._how = compile_server.ONCE if once else compile_server.PREPARES if prepares else ""
        self._servers = ServerPool(self._make_server, self.most_servers)

    def begin(self) -> None:
        """Start the server's process, unless it runs; it does not wait, and nothing is precompiled."""
        self._servers.first.begin()

    def warm(self) -> None:
        """Start the server and precompile the headers if needed; takes seconds, so use a background thread."""
        with self._servers.taken() as server:
            _raise_machine_error(server.request({"op": "warm"}, _SERVER_START_S))

    def compile(
        self,
        kernel: KernelFile,
        params: Mapping[str, Number] | None = None,
        probe: Probe = NO_PROBE,
        on_code: OnCode = lambda _: None,
    ) -> CompileResult:
        """Compile the kernels that the plan launches.

        Args:
            probe: directives that ask for the macros behind the file's names (`macro_probe`).
            on_code: called with what was compiled before it is disassembled, which takes a third of a second or more:
                without `sass`, instructions counted and `differing`. Not called if it does not compile, or is cached.

        Raises:
            MachineError: the toolchain or the server fails, not the candidate.
        """
        started = time.monotonic()
        refused = check_includes(kernel.body, kernel.body_line, compile_server.include_dirs())
        if refused:
            return _make_failure(Status.COMPILE_ERROR, refused, "", time.monotonic() - started)
        plain, names = kernel.to_cpp(params), kernel.kernel_names()
        program = _write_program(plain, probe)
        entry = self._cache / content_key("\0".join((self._fingerprint, program, *names, *_launch_lines(kernel))))
        result = _load(entry)
        if result is None:
            answer, differing = self._ask(program, plain, names), frozenset[str]()
            if answer["limit"] == "time" or _was_killed(answer, self.limits):
                # Once more, since others may have slowed the machine, or filled it.
                answer = self._ask(program, plain, names)
            if _was_killed(answer, self.limits):
                raise MachineError(sandbox.killed_from_outside("the compiler"))
            if "exit_code" in answer and not answer["limit"] and not _used_much(answer, self.limits):
                answer = self._ask_for_the_error(program, plain) or answer
            if probe.below and answer.get("log_bytes", self.limits.log_bytes + 1) <= self.limits.log_bytes:
                log, differing = read_answer(answer["log"])
                answer = {**answer, "log": log}
            result = replace(self._judge(answer, kernel, on_code), differing=tuple(sorted(differing)))
            if _is_deterministic(result):
                _save(entry, result)
        return replace(result, seconds=time.monotonic() - started)

    def close(self) -> None:
        """End the servers; a later compile starts another."""
        self._servers.close()

    def _make_server(self, number: int) -> Worker:
        how = self._how if number == 0 or self._how == compile_server.ONCE else ""
        return Worker(
            "cutegen_core.execute.compiler.compile_server",
            [self.arch, str(cache_dir("prelude")), how],
            name=f"the compile server for {self.arch}",
            makes_way=True,
        )

    def _ask(self, program: str, plain: str, names: tuple[str, ...]) -> Message:
        """Have a program compiled; `plain` is the same without what asks for macros."""
        limits = asdict(self.limits)
        request = {"op": "compile", "program": program, "plain": plain, "names": names, "limits": limits}
        patience_s = self.limits.seconds * sandbox.PATIENCE + _SERVER_START_S
        with self._servers.taken() as server:
            try:
                return _raise_machine_error(server.request(request, patience_s))
            except WorkerLimitError:
                # A candidate dies in its own fork, so another program killed the server: try once more.
                return _raise_machine_error(server.request(request, patience_s))

    def _ask_for_the_error(self, program: str, plain: str) -> Message:
        """Return the answer without the kernels' names, which NVRTC dies of where a declaration has an error; nothing
        where there is no error."""
        answer = self._ask(program, plain, ())
        return answer if answer.get("code", SUCCESS) != SUCCESS else {}

    def _judge(self, answer: Message, kernel: KernelFile, on_code: OnCode) -> CompileResult:
        if answer["limit"] or answer.get("code") == OUT_OF_MEMORY:
            return CompileResult(Status.COMPILE_LIMIT, message=_describe_limit(answer, self.limits))
        if "code" not in answer:
            return _judge_crash(answer, self.limits)
        log = _shorten_paths(answer["log"])
        diagnostics = fold(log, kernel)
        if answer["code"] != SUCCESS:
            return _make_failure(Status.COMPILE_ERROR, diagnostics, log)
        if answer["log_bytes"] > self.limits.log_bytes:
            message = (
                f"the compiler wrote {answer['log_bytes'] / 1e6:.1f} MB of messages; "
                f"at most {self.limits.log_bytes / 1e6:.1f} MB are allowed. The first ones are kept."
            )
            return CompileResult(Status.COMPILE_LIMIT, diagnostics, log, message=message)
        usages, lowered = ptxas.parse_usages(log), answer["lowered"]
        wrong = _find_not_kernels(kernel, lowered, usages)
        if wrong:
            return _make_failure(Status.COMPILE_ERROR, (*wrong, *diagnostics), log)
        cubin = base64.b64decode(answer["cubin"])
        kernels = _collect_resources(lowered, usages, {})
        on_code(CompileResult(Status.PASSED, diagnostics, log, kernels, cubin, "", lowered))
        try:
            sass = _HEAP_FOLDER.sub('"', disassembly.disassemble(cubin))
        except WorkerLimitError as limit:
            return CompileResult(Status.COMPILE_LIMIT, diagnostics, log, message=f"{limit} Unroll less.")
        kernels = _collect_resources(lowered, usages, disassembly.split_kernels(sass))
        return CompileResult(Status.PASSED, diagnostics, log, kernels, cubin, sass, lowered)


def _write_program(program: str, probe: Probe) -> str:
    """Put the probe round the program; the line numbers of the program stay."""
    if not probe.below:
        return program
    return f'{probe.above}#line 2 "{compile_server.PROGRAM_NAME}"\n{program}{probe.below}'


def _raise_machine_error(answer: Message) -> Message:
    if "machine_error" in answer:
        raise MachineError(answer["machine_error"])
    return answer


def _collect_resources(
    lowered: Mapping[str, str], usages: Mapping[str, ptxas.KernelUsage], sass: Mapping[str, str]
) -> tuple[KernelResources, ...]:
    return tuple(
        KernelResources(
            kernel=name,
            signature=demangle(mangled),
            **usages[mangled]._asdict(),
            instruction_mix=disassembly.count_instructions(sass.get(mangled, "")),
        )
        for name, mangled in lowered.items()
    )


def _find_not_kernels(
    kernel: KernelFile, lowered: Mapping[str, str], usages: Mapping[str, ptxas.KernelUsage]
) -> tuple[Diagnostic, ...]:
    lines = {instance.kernel: instance.line for instance in kernel.instances()}
    found = []
    for name, mangled in lowered.items():
        if not mangled.startswith("_Z"):
            text = f'kernel {name} is declared extern "C", which hides its parameter types: remove extern "C"'
        elif mangled not in usages:
            defined = ", ".join(find_global_functions(kernel.body)) or "none"
            text = f"{name} is not a __global__ function; the kernels of this file: {defined}"
        else:
            continue
        found.append(Diagnostic(lines.get(name, 0), "error", text, "nvrtc"))
    return tuple(found)


def _make_failure(status: Status, diagnostics: tuple[Diagnostic, ...], log: str, seconds: float = 0.0) -> CompileResult:
    first = next((d for d in diagnostics if d.severity == "error"), None)
    if first is None:
        first = Diagnostic(0, "error", log.strip().splitlines()[-1] if log.strip() else "the compiler gave up", "nvrtc")
        diagnostics = (first, *diagnostics)
    message = f"line {first.line}: {first.message}" if first.line else first.message
    return CompileResult(status, diagnostics, log, seconds=seconds, message=message)


def _judge_crash(answer: Message, limits: CompileLimits) -> CompileResult:
    """Judge a crash. A compiler that gets no more memory aborts, so a crash with much memory in use is a limit."""
    if _used_much(answer, limits):
        return CompileResult(Status.COMPILE_LIMIT, message=_describe_limit({**answer, "limit": "memory"}, limits))
    code = answer["exit_code"]
    message = f"the compiler itself crashed on this file (exit code {code}): simplify the code it was last given"
    return _make_failure(Status.COMPILE_ERROR, (Diagnostic(0, "error", message, "crash"),), "")


def _was_killed(answer: Message, limits: CompileLimits) -> bool:
    """Tell whether something else killed the compiler, which used little memory: no fault of the candidate's."""
    return answer.get("exit_code") == -signal.SIGKILL and not answer["limit"] and not _used_much(answer, limits)


def _used_much(answer: Message, limits: CompileLimits) -> bool:
    return bool(answer["peak_bytes"] > limits.memory_bytes / 2)


def _describe_limit(answer: Message, limits: CompileLimits) -> str:
    kind = answer["limit"] or "memory"
    bound = f"{limits.seconds:g} s" if kind == "time" else f"{limits.memory_bytes / (1 << 30):.2g} GiB of memory"
    return (
        f"the compiler was stopped at its limit of {bound}, after {answer['seconds']:.1f} s and with "
        f"{answer['peak_bytes'] / (1 << 30):.1f} GiB in use. Deep or exploding templates do this: "
        "use smaller static shapes, or loops instead of recursion."
    )


def _shorten_paths(log: str) -> str:
    for folder in sorted(compile_server.include_dirs(), key=lambda f: -len(str(f))):
        log = log.replace(f"{folder}/", "")
    return _CONTROL.sub("", log)


def _prelude_key() -> str:
    """Return a part of the cache key: what every program is compiled after, and how CuTe's headers are rewritten."""
    files = sorted(p for p in (*compile_server.PRELUDE.rglob("*"), Path(lean_cute.__file__)) if p.is_file())
    return content_key("\0".join(p.name + "\0" + p.read_text() for p in files))


def _launch_lines(kernel: KernelFile) -> list[str]:
    """Return a part of the cache key: messages about kernel names have lines of the plan, which the program lacks."""
    return [f"{instance.kernel}@{instance.line}" for instance in kernel.instances()]


# -- the cache: one file per entry, a line of JSON followed by the cubin ----------------------------------------------


def _is_deterministic(result: CompileResult) -> bool:
    return result.status is not Status.COMPILE_LIMIT and all(d.tool != "crash" for d in result.diagnostics)


def _load(entry: Path) -> CompileResult | None:
    try:
        head, _, cubin = entry.read_bytes().partition(b"\n")
        key, _, record = head.partition(b" ")
        if content_key(record + cubin).encode() != key:
            return None  # truncated by a full disk or a crash: compile again
        return replace(as_json.load(CompileResult, record), cubin=cubin, cached=True)
    except (FileNotFoundError, StoreError):
        return None


def _save(entry: Path, result: CompileResult) -> None:
    record = as_json.dump(replace(result, cubin=b"")).encode()
    key = content_key(record + result.cubin).encode()
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=entry.parent)
        with os.fdopen(fd, "wb") as file:
            file.write(key + b" " + record + b"\n" + result.cubin)
        os.replace(temporary, entry)
    except OSError as error:
        raise MachineError(f"cannot write the compile cache {entry.parent}: {error.strerror}.") from error
