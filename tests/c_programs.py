"""Programs in C that tests build, by the compiler and with the C library that the emulator's runner has."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.machine import toolchain, workspace


def build(source: Path, made: Path, *flags: str) -> Path:
    """Build `made`. The C library, 20 s of a core, is kept with the emulator's builds."""
    target = ("-target", f"x86_64-linux-gnu.{host_compiler.GLIBC}", "-O2", "-fno-sanitize=all")
    command = [*toolchain.find_zig(), "cc", *target, *flags]
    environment = host_compiler.environment(workspace.cache_dir("emulator"))
    subprocess.run([*command, str(source), "-o", str(made)], check=True, timeout=240, env=environment)
    return made
