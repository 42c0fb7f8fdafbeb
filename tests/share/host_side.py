"""The host side of an export, compiled without a GPU's compiler: against the names of CUDA's headers and stubs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from cutegen_core.machine import toolchain


def launch_nothing(text: str) -> str:
    """Return the text without names for its kernels, and with a null pointer in place of each that it launches."""
    text = re.sub(r"^static constexpr auto cutegen_kernel_.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\bcutegen_kernel_\d+, cutegen", "nullptr, cutegen", text)


def check_compiles(text: str, folder: Path) -> None:
    """Check syntax and types of a C++17 file that is written into the folder."""
    (folder / "host.cpp").write_text(text)
    include = [f"-I{each}" for each in toolchain.find_include_dirs()]
    own = shutil.which("c++")  # zig builds its C++ library first, which takes minutes
    compiler = [own] if own else [*toolchain.find_zig(), "c++"]
    done = subprocess.run(
        [*compiler, "-std=c++17", "-w", "-fsyntax-only", *include, "host.cpp"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
