"""Build a candidate as a shared object: translate the source, compile and link in the sandbox, store by content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cutegen_core.execute.emulator.architecture import write_macros
from cutegen_core.execute.emulator.candidate_source import PLAN_FILE, SourceError, translate
from cutegen_core.execute.emulator.compiling import LOG_BYTES, MEMORY_BYTES, run_compiler
from cutegen_core.execute.emulator.installation import Installation
from cutegen_core.execute.port import Built
from cutegen_core.kernel.kernel_file import PROGRAM_NAME, KernelFile
from cutegen_core.machine import toolchain
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Diagnostic, Status

IMAGE = "candidate.so"
_MOST_DIAGNOSTICS = 30
_STALE = re.compile(r"^(?:fatal )?error: .*(?:precompiled header|PCH file|AST file)", re.MULTILINE)
_MESSAGE = re.compile(
    r"^(?:(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? )?(?P<severity>fatal error|error|warning|note): (?P<text>.*)$"
)


def build(
    installed: Installation,
    cache: Path,
    kernel: KernelFile,
    params: Mapping[str, int | float],
    *,
    checked: bool,
    arch: str,
    timeout_s: float,
) -> Built:
    """Build a candidate or return the cached build.

    Args:
        timeout_s: limit of the processor time of the compiler, and again of the linker.

    Raises:
        MachineError: the compiler cannot be run in its sandbox.
    """
    started = time.monotonic()
    names = kernel.kernel_names()
    try:
        translated = translate(kernel.to_cpp(params), names, toolchain.find_include_dirs())
        source = write_macros(arch) + translated
    except SourceError as error:
        return _make_failure(Status.COMPILE_ERROR, checked, started, error.diagnostics, str(error))
    folder = cache / "builds" / _key(installed, source, checked)
    image = folder / IMAGE
    if image.exists():
        return Built(Status.PASSED, image, checked, time.monotonic() - started, cached=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
    try:
        return _compile(installed, source, names, scratch, folder, checked, started, timeout_s)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _key(installed: Installation, source: str, checked: bool) -> str:
    return hashlib.sha256(f"{installed.headers.name} {checked}\n{source}".encode()).hexdigest()


def _compile(
    installed: Installation,
    source: str,
    names: Sequence[str],
    scratch: Path,
    folder: Path,
    checked: bool,
    started: float,
    timeout_s: float,
) -> Built:
    (scratch / "candidate.cpp").write_text(source)
    compiler = installed.compiler
    command = [
        *compiler.compile, *compiler.candidate_flags(checked=checked), *installed.include_flags,
        "-include-pch", str(installed.prelude(checked=checked)), "-c", "candidate.cpp", "-o", "candidate.o",
    ]  # fmt: skip
    done = run_compiler(installed, command, scratch, timeout_s)
    if done.limit:
        return _make_failure(
            Status.COMPILE_LIMIT, checked, started, (), _describe_limit(done.limit, timeout_s), done.output
        )
    if done.returncode != 0:
        _check_prelude(done.output, installed)
        found = read_diagnostics(done.output, names)
        text = found[0].message if found else "the emulator's compiler failed without a message"
        return _make_failure(Status.COMPILE_ERROR, checked, started, found, text, done.output)
    linked = run_compiler(installed, [*compiler.link_candidate, "candidate.o", "-o", IMAGE], scratch, timeout_s)
    if linked.limit:
        return _make_failure(
            Status.COMPILE_LIMIT, checked, started, (), _describe_limit(linked.limit, timeout_s), linked.output
        )
    if linked.returncode != 0:
        return _make_failure(Status.COMPILE_ERROR, checked, started, (), "the kernel does not link", linked.output)
    (scratch / "kernels").write_text("\n".join(names) + "\n")
    _keep(scratch, folder)
    return Built(Status.PASSED, folder / IMAGE, checked, time.monotonic() - started, log=done.output)


def _check_prelude(log: str, installed: Installation) -> None:
    """Raise MachineError if the prelude no longer matches its headers; that is not the candidate's fault."""
    if _STALE.search(log):
        raise MachineError(
            f"the headers of the emulator changed after its prelude was built. Remove {installed.headers} and restart."
        )


def _keep(scratch: Path, folder: Path) -> None:
    """Move the finished build to its place, unless another process has stored the same build."""
    (scratch / "candidate.o").unlink()
    try:
        os.rename(scratch, folder)
    except OSError:
        if not (folder / IMAGE).exists():
            raise


def _make_failure(
    status: Status, checked: bool, started: float, found: tuple[Diagnostic, ...], message: str, log: str = ""
) -> Built:
    seconds = time.monotonic() - started
    return Built(status, None, checked, seconds, message=message, diagnostics=found, log=log)


def _describe_limit(limit: str, timeout_s: float) -> str:
    reasons = {
        "time": f"took more than {timeout_s:g} s", "memory": f"needed more than {MEMORY_BYTES >> 30} GiB",
        "output": f"printed more than {LOG_BYTES >> 20} MiB of messages",
    }  # fmt: skip
    return f"compiling for the emulator {reasons[limit]} and was stopped"


def read_diagnostics(log: str, names: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors; an error in a header gets the line of the kernel file that led there."""
    blocks: list[list[re.Match[str]]] = []
    for line in log.splitlines():
        match = _MESSAGE.match(line)
        if match is None:
            continue
        if match["severity"] != "note" or not blocks:
            blocks.append([])
        blocks[-1].append(match)
    errors = [b for b in blocks if "error" in b[0]["severity"]]
    return tuple(_read_diagnostic(block, names) for block in errors[:_MOST_DIAGNOSTICS])


def _read_diagnostic(block: Sequence[re.Match[str]], names: Sequence[str]) -> Diagnostic:
    head = block[0]
    notes = tuple(f"{m['file']}:{m['line']}: {m['text']}" for m in block[1:])
    if head["file"] == PLAN_FILE:
        name = names[min(int(head["line"]), len(names)) - 1]
        return Diagnostic(0, "error", f"kernel {name!r} of the plan: {head['text']}", "emulator", notes)
    line = next((int(m["line"]) for m in block if m["file"] == PROGRAM_NAME), 0)
    return Diagnostic(line, "error", head["text"], "emulator", notes)
