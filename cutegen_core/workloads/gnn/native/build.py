"""Compile the native code once, by the clang of the ziglang wheel, for any processor of the machine's kind.

An entry of the cache is named by everything that decides what it holds: the sources, the command, the compiler.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
import tempfile
from pathlib import Path

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.machine import toolchain, workspace
from cutegen_core.records.errors import MachineError

_HERE = Path(__file__).parent
_FLAGS = (
    "-std=c11", "-O3", "-shared", "-fPIC", "-fvisibility=default", "-fno-sanitize=all", "-ffp-contract=off", "-Wall",
    "-Werror",
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


def _command() -> tuple[str, ...]:
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise MachineError(f"the sampler is built for x86_64 and aarch64 processors; this one is {machine}.")
    return (*toolchain.find_zig(), "cc", "-target", f"{machine}-linux-gnu.{host_compiler.GLIBC}", *_FLAGS)


def _key() -> str:
    version = toolchain.installed_version("ziglang")
    made = hashlib.sha256(repr((_command()[1:], version)).encode())
    for path in sorted(_HERE.glob("*.[ch]")):
        content = path.read_bytes()
        made.update(f"{path.name} {len(content)}\n".encode() + content)
    return made.hexdigest()[:32]


def _compile(scratch: Path) -> bytes:
    out = scratch / "native.so"
    command = [*_command(), "-o", str(out), *map(str, sources())]
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
