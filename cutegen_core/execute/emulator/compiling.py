"""Run the emulator's compiler on a candidate's text, in the sandbox."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.execute.emulator.installation import Installation, runtime_sources
from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import Policy

MEMORY_BYTES = 4 << 30
LOG_BYTES = 1 << 20
_FILE_BYTES = 512 << 20


def run_compiler(installed: Installation, command: Sequence[str], scratch: Path, timeout_s: float) -> sandbox.Completed:
    """Run a command of the compiler in `scratch`, the only folder that it may write to.

    Raises:
        MachineError: the compiler cannot be run in its sandbox.
    """
    reads = (
        installed.headers,
        runtime_sources(),
        *installed.compiler.reads,
        *(p for p in toolchain.find_include_dirs()),
    )
    policy = Policy(
        read=tuple(dict.fromkeys(reads)), write=(scratch,), memory_bytes=MEMORY_BYTES,
        cpu_seconds=math.ceil(timeout_s), file_bytes=_FILE_BYTES,
    )  # fmt: skip
    return sandbox.run(
        command, policy, cwd=scratch, env=host_compiler.environment(scratch), timeout_s=timeout_s,
        output_limit_bytes=LOG_BYTES,
    )  # fmt: skip
