"""NVIDIA's command-line tools: where they are, how to get them, and running them on the standalone runner.

ncu and compute-sanitizer inject code into the process they watch, so they get a plain process of its own group, an
allow-listed environment with a private home (ncu keeps files there), and a time limit after which the group is killed.
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

from cutegen_core.machine.device import detect
from cutegen_core.machine.worker import child_environment
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
    """A finished tool; `limit` when it was stopped at its time limit."""

    returncode: int
    output: str
    limit: bool


def find(tool: str) -> Path | None:
    """From PATH, or from where its installer usually puts it; the newest of several."""
    found = shutil.which(tool)
    if found:
        return Path(found)
    places = [
        p for folder in _USUAL for p in (Path(folder) / tool, *sorted(Path(folder).glob(f"*/{tool}"), reverse=True))
    ]
    return next((p for p in places if os.access(p, os.X_OK) and p.is_file()), None)


def require(tool: str) -> Path:
    """Like `find`; MachineError with the fix when it is nowhere."""
    found = find(tool)
    if found is None:
        raise MachineError(f"{tool} is not installed: {FIX[tool]}.")
    return found


@cache
def read_version(tool: Path) -> str:
    """Such as "2025.3.1.0"; "" when it does not say."""
    ran = run([str(tool), "--version"], timeout_s=20.0)
    found = re.search(r"\b20\d\d(?:\.\d+)+\b", ran.output)
    return found[0] if found else ""


def standalone_command(spec: Path) -> list[str]:
    """The command that runs what the spec says, to be put behind a tool's own."""
    return [sys.executable, "-m", "cutegen_core.execute.cuda.standalone", str(spec)]


def run(command: Sequence[str], *, timeout_s: float, cwd: Path | None = None) -> FinishedTool:
    """Runs a tool to its end, output and error output together, on the GPU that `device.detect` found.

    Raises:
        MachineError: it cannot be started.
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
    """Whether it had to be stopped; nothing of its group is left afterwards."""
    try:
        process.wait(timeout_s)
        return False
    except subprocess.TimeoutExpired:
        return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_GRACE_S)
