"""Compiling what is exported with nvcc, where there is one: in the sandbox, since the code may be a model's."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from cutegen_core.machine import toolchain
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import Policy
from cutegen_core.records.errors import UsageError
from cutegen_core.share.exports.host_cpp import nvcc_flags

_SECONDS = 300.0
_ENVIRONMENT = ("CUDA_HOME", "CUDA_PATH")


class Check(NamedTuple):
    """`compiled` is None when there is no nvcc here; `note` says what was done."""

    compiled: bool | None
    note: str


def find() -> Path | None:
    """Return nvcc of CUDA_HOME, CUDA_PATH, the usual place or PATH; None when there is none."""
    folders = [Path(os.environ[name]) / "bin" for name in _ENVIRONMENT if os.environ.get(name)]
    candidates = [folder / "nvcc" for folder in (*folders, Path("/usr/local/cuda/bin"))]
    on_path = shutil.which("nvcc")
    candidates += [Path(on_path)] if on_path else []
    return next((c.resolve() for c in candidates if c.is_file()), None)


def check(source: str, arch: str) -> Check:
    """Compile one .cu to an object for `arch`.

    Raises:
        UsageError: nvcc refuses it; the text holds its first error.
    """
    nvcc = find()
    if nvcc is None:
        return Check(None, "not compiled here: there is no nvcc (set CUDA_HOME to a CUDA toolkit)")
    with tempfile.TemporaryDirectory(prefix="cutegen-nvcc-") as name:
        folder = Path(name)
        (folder / "kernel.cu").write_text(source, encoding="utf-8")
        done = sandbox.run(
            [
                str(nvcc),
                *nvcc_flags(arch),
                f"-I{toolchain.find_include_dirs()[0]}",
                "-c",
                "kernel.cu",
                "-o",
                "kernel.o",
            ],
            _policy(nvcc, folder),
            cwd=folder,
            env={**child_environment(folder), "PATH": f"{nvcc.parent}:/usr/bin:/bin"},
            timeout_s=_SECONDS,
            output_limit_bytes=1 << 20,
        )
        compiled = done.returncode == 0 and not done.limit and (folder / "kernel.o").is_file()
    if not compiled:
        raise UsageError(f"nvcc does not compile the exported kernel: {_first_error(done.output, done.limit)}")
    return Check(True, f"compiled with nvcc for {arch} in {done.seconds:.0f} s")


def _policy(nvcc: Path, folder: Path) -> Policy:
    toolkit = nvcc.parent.parent
    programs = tuple(p for p in (toolkit, Path("/usr"), Path("/bin"), Path("/etc/alternatives")) if p.exists())
    return Policy(
        read=(toolkit, toolchain.find_include_dirs()[0]),
        write=(folder,),
        execute=programs,
        memory_bytes=16 << 30,
        cpu_seconds=int(_SECONDS),
        file_bytes=1 << 30,
        processes=True,
    )


def _first_error(output: str, limit: str) -> str:
    if limit:
        return f"it ran past its {limit} limit"
    found = re.search(r"^.*\berror\b.*$", output, re.MULTILINE | re.IGNORECASE)
    return found[0].strip() if found else output.strip()[-500:] or "no message"
