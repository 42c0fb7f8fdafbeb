"""Build a candidate as two shared objects: translate the source, compile and link in the sandbox, store by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cutegen_core.execute.emulator import machine_code
from cutegen_core.execute.emulator.architecture import write_macros
from cutegen_core.execute.emulator.candidate_source import PLAN_FILE, SourceError, translate
from cutegen_core.execute.emulator.compiling import LOG_BYTES, MEMORY_BYTES, run_compiler
from cutegen_core.execute.emulator.installation import Installation, raise_if_full
from cutegen_core.execute.port import Built
from cutegen_core.kernel.kernel_file import PROGRAM_NAME, KernelFile
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox.sandbox import Completed
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Diagnostic, Status

_FORMAT = 2
_INCLUDED = re.compile(rf"In file included from {re.escape(PROGRAM_NAME)}:(?P<line>\d+):$")
_MOST_DIAGNOSTICS = 30
_STALE = re.compile(r"^(?:fatal )?error: .*(?:precompiled header|PCH file|AST file)", re.MULTILINE)
_MESSAGE = re.compile(
    r"^(?:(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? )?(?P<severity>fatal error|error|warning|note): (?P<text>.*)$"
)


class _CompilerError(NamedTuple):
    """An error with its notes.

    Attributes:
        included: line of the kernel file whose header it lies in; 0 outside of headers.
    """

    included: int
    messages: list[re.Match[str]]


class BothBuilds(NamedTuple):
    """Both builds of a candidate; one failure ends both."""

    plain: Built
    checked: Built


def build(
    installed: Installation,
    cache: Path,
    kernel: KernelFile,
    params: Mapping[str, int | float],
    *,
    arch: str,
    timeout_s: float,
) -> BothBuilds:
    """Build a candidate or return the cached builds.

    Args:
        timeout_s: limit of the processor time of each command of the compiler.

    Raises:
        MachineError: the compiler cannot be run in its sandbox.
    """
    started = time.monotonic()
    names = kernel.kernel_names()
    try:
        translated = translate(kernel.to_cpp(params), names, toolchain.find_include_dirs())
        source = write_macros(arch) + translated
    except SourceError as error:
        return _fail(Status.COMPILE_ERROR, started, error.diagnostics, str(error))
    folder = cache / "builds" / _key(installed, source)
    if folder.exists():
        return _pass(folder, started, cached=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
    try:
        return _compile(installed, source, names, scratch, folder, started, timeout_s)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _key(installed: Installation, source: str) -> str:
    return hashlib.sha256(f"{installed.headers.name} {_FORMAT}\n{source}".encode()).hexdigest()


def _compile(
    installed: Installation,
    source: str,
    names: Sequence[str],
    scratch: Path,
    folder: Path,
    started: float,
    timeout_s: float,
) -> BothBuilds:
    (scratch / "candidate.cpp").write_text(source)
    compiler = installed.compiler
    command = [
        *compiler.compile, *compiler.candidate_flags(), *installed.include_flags,
        "-include-pch", str(installed.prelude), "-emit-llvm", "-S", "candidate.cpp", "-o", machine_code.CODE,
    ]  # fmt: skip
    done = run_compiler(installed, command, scratch, timeout_s)
    if done.limit or done.returncode != 0:
        _check_prelude(done.output, installed)
        raise_if_full(done.output, scratch)
        return _judge(done, names, started, timeout_s, "the emulator's compiler failed without a message")
    made = machine_code.make(installed, scratch, timeout_s)
    if made.limit or made.returncode != 0:
        raise_if_full(made.output, scratch)
        return _judge(made, names, started, timeout_s, "the kernel does not link")
    _keep(scratch, folder, names)
    return _pass(folder, started, log=done.output)


def _judge(done: Completed, names: Sequence[str], started: float, timeout_s: float, without_message: str) -> BothBuilds:
    """Return the failure of a command of the compiler."""
    if done.limit:
        return _fail(Status.COMPILE_LIMIT, started, (), _describe_limit(done.limit, timeout_s), done.output)
    found = read_diagnostics(done.output, names)
    return _fail(Status.COMPILE_ERROR, started, found, found[0].message if found else without_message, done.output)


def _check_prelude(log: str, installed: Installation) -> None:
    """Raise MachineError if the prelude no longer matches its headers; that is not the candidate's fault."""
    if _STALE.search(log):
        raise MachineError(
            f"the headers of the emulator changed after its prelude was built. Remove {installed.headers} and restart."
        )


def _keep(scratch: Path, folder: Path, names: Sequence[str]) -> None:
    """Move both images to their place, unless another process has stored the same builds."""
    kept = scratch / "kept"
    kept.mkdir()
    for checked in (True, False):
        name = machine_code.image_name(checked=checked)
        os.rename(scratch / name, kept / name)
    (kept / "kernels").write_text("\n".join(names) + "\n")
    try:
        os.rename(kept, folder)
    except OSError:
        if not folder.exists():
            raise


def _pass(folder: Path, started: float, *, cached: bool = False, log: str = "") -> BothBuilds:
    seconds = time.monotonic() - started
    return BothBuilds(*(
        Built(Status.PASSED, folder / machine_code.image_name(checked=checked), checked, seconds, cached, log=log)
        for checked in (False, True)
    ))  # fmt: skip


def _fail(status: Status, started: float, found: tuple[Diagnostic, ...], message: str, log: str = "") -> BothBuilds:
    seconds = time.monotonic() - started
    return BothBuilds(*(
        Built(status, None, checked, seconds, message=message, diagnostics=found, log=log)
        for checked in (False, True)
    ))  # fmt: skip


def _describe_limit(limit: str, timeout_s: float) -> str:
    reasons = {
        "time": f"took more than {timeout_s:g} s", "memory": f"needed more than {MEMORY_BYTES >> 30} GiB",
        "output": f"printed more than {LOG_BYTES >> 20} MiB of messages",
    }  # fmt: skip
    return f"compiling for the emulator {reasons[limit]} and was stopped"


def read_diagnostics(log: str, names: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors; an error in a header gets the line of the kernel file that led there."""
    blocks: list[_CompilerError] = []
    included = 0
    for line in log.splitlines():
        if found := _INCLUDED.match(line):
            included = int(found["line"])
        match = _MESSAGE.match(line)
        if match is None:
            continue
        if match["severity"] != "note" or not blocks:
            included = 0 if match["file"] in (PROGRAM_NAME, PLAN_FILE) else included
            blocks.append(_CompilerError(included, []))
        blocks[-1].messages.append(match)
    errors = [b for b in blocks if "error" in b.messages[0]["severity"]]
    return tuple(_read_diagnostic(block, names) for block in errors[:_MOST_DIAGNOSTICS])


def _read_diagnostic(found: _CompilerError, names: Sequence[str]) -> Diagnostic:
    block, head = found.messages, found.messages[0]
    notes = tuple(f"{m['file']}:{m['line']}: {m['text']}" for m in block[1:])
    if head["file"] == PLAN_FILE:
        name = names[min(int(head["line"]), len(names)) - 1]
        return Diagnostic(0, "error", f"kernel {name!r} of the plan: {head['text']}", "emulator", notes)
    line = next((int(m["line"]) for m in block if m["file"] == PROGRAM_NAME), 0)
    if not line and found.included:
        text = f"the emulator cannot read the header that line {found.included} includes: {head['text']}"
        return Diagnostic(found.included, "error", text, "emulator", notes)
    return Diagnostic(line, "error", head["text"], "emulator", notes)
