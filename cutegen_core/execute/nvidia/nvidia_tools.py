"""Find NVIDIA's command-line tools and run them on the standalone runner.

ncu and compute-sanitizer inject code into the process they watch. They therefore get an unsandboxed process in its own
group, an allow-listed environment with a private home (ncu writes files there), and a time limit after which the group
is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cutegen_core.machine.child_environment import child_environment
from cutegen_core.machine.device import detect
from cutegen_core.records.errors import MachineError

NCU, SANITIZER = "ncu", "compute-sanitizer"
FIX = {
    NCU: "install Nsight Compute (developer.nvidia.com/nsight-compute, or NVIDIA's package nsight-compute) and put ncu "
    "into PATH",
    SANITIZER: "install compute-sanitizer (part of the CUDA Toolkit, or NVIDIA's package cuda-sanitizer) and put it "
    "into PATH",
}
_USUAL = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute", "/usr/lib/nsight-compute", "/opt/cuda/bin")
_GRACE_S = 5.0


@dataclass(frozen=True)
class FinishedTool:
    """A finished tool; `limit` tells whether it was stopped at its time limit."""

    returncode: int
    output: str
    limit: bool


def find(tool: str) -> Path | None:
    """Find a tool in PATH or in its usual folders; the newest of several versions."""
    found = shutil.which(tool)
    if found:
        return Path(found)
    places = [
        p for folder in _USUAL for p in (Path(folder) / tool, *sorted(Path(folder).glob(f"*/{tool}"), reverse=True))
    ]
    return next((p for p in places if os.access(p, os.X_OK) and p.is_file()), None)


def require(tool: str) -> Path:
    """Find a tool like `find`; MachineError with the fix if it is not installed."""
    found = find(tool)
    if found is None:
        raise MachineError(f"{tool} is not installed: {FIX[tool]}.")
    return found


@cache
def read_version(tool: Path) -> str:
    """Return the tool's version, such as "2025.3.1.0"; "" if it prints none."""
    ran = run([str(tool), "--version"], timeout_s=20.0)
    found = re.search(r"\b20\d\d(?:\.\d+)+\b", ran.output)
    return found[0] if found else ""


def standalone_command(spec: Path) -> list[str]:
    """Return the command that runs the spec, to append to a tool's own command."""
    return [sys.executable, "-m", "cutegen_core.execute.cuda.standalone", str(spec)]


def run(command: Sequence[str], *, timeout_s: float, cwd: Path | None = None) -> FinishedTool:
    """Run a tool to its end on the GPU that `device.detect` found; stdout and stderr are one output.

    Raises:
        MachineError: the tool cannot be started.
    """
    gpu = detect()
    visible = {"CUDA_VISIBLE_DEVICES": gpu.uuid} if gpu and gpu.uuid else {}
    with tempfile.TemporaryDirectory(prefix="cutegen-tool-") as home, tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=cwd or home,
                env=child_environment(Path(home)) | visible, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise MachineError(f"{command[0]} cannot be started: {error.strerror}.") from error
        limit = _wait(process, timeout_s)
        log.seek(0)
        return FinishedTool(process.returncode, log.read().decode(errors="replace"), limit)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the tool, kill its whole group, and tell whether the time limit stopped it."""
    try:
        process.wait(timeout_s)
        return False
    except subprocess.TimeoutExpired:
        return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_GRACE_S)
