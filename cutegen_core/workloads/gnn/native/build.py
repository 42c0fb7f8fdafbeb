"""Compile the native code once, by the clang of the ziglang wheel, for any processor of the machine's kind.

`CUTEGEN_SAMPLER_CC=/usr/bin/cc` chooses an installed C compiler: a setting, for machines without the wheel, and never a
fallback.
An entry of the cache is named by everything that decides what it holds: the sources, the command, the compiler.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.machine import toolchain, workspace
from cutegen_core.records.errors import MachineError

SETTING = "CUTEGEN_SAMPLER_CC"
_HERE = Path(__file__).parent
_FLAGS = (
    "-std=c11", "-O3", "-shared", "-fPIC", "-fvisibility=default", "-fno-sanitize=all", "-fwrapv",
    "-ffp-contract=off", "-Wall", "-Werror",
)  # fmt: skip
_TIMEOUT_S = 600


@functools.cache
def library() -> Path:
    """Return the shared library, compiled if no process of this workspace has done so before.

    Raises:
        MachineError: the compiler is missing or fails.
    """
    folder = workspace.cache_dir("gnn-native")
    path = folder / f"{_key()}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as scratch:
            workspace.create_file(path, _compile(Path(scratch)))
    return path


def sources() -> tuple[Path, ...]:
    """Return the C files."""
    return tuple(sorted(_HERE.glob("*.c")))


def _compiler() -> tuple[tuple[str, ...], str]:
    """Return the compiler's command and its version."""
    if chosen := os.environ.get(SETTING):
        try:
            said = subprocess.run([chosen, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise MachineError(f"{SETTING}={chosen} cannot be run: {error}. Name a C compiler, or unset it.") from error
        return (chosen,), said.partition("\n")[0]
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise MachineError(f"the sampler is built for x86_64 and aarch64; this is {machine}. Set {SETTING}=cc.")
    command = (*toolchain.find_zig(), "cc", "-target", f"{machine}-linux-gnu.{host_compiler.GLIBC}")
    return command, f"ziglang {toolchain.installed_version('ziglang')}"


def _key() -> str:
    command, version = _compiler()
    made = hashlib.sha256(repr((command[1:], _FLAGS, version)).encode())
    for path in sorted(_HERE.glob("*.[ch]")):
        content = path.read_bytes()
        made.update(f"{path.name} {len(content)}\n".encode() + content)
    return made.hexdigest()[:32]


def _compile(scratch: Path) -> bytes:
    out = scratch / "native.so"
    command = [*_compiler()[0], *_FLAGS, "-o", str(out), *map(str, sources())]
    try:
        done = subprocess.run(
            command, cwd=scratch, env=host_compiler.environment(scratch), capture_output=True, text=True,
            timeout=_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"the compiler of the sampler cannot be run: {error}") from error
    if done.returncode or not out.exists():
        raise MachineError(f"the sampler does not compile (exit code {done.returncode}):\n{done.stderr.strip()}")
    return out.read_bytes()
