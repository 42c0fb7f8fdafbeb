"""Find the compilers and headers: always inside their PyPI wheels and by explicit path, never by search path.

An installed CUDA toolkit, or the NVRTC that some torch builds bring along, is therefore never used by mistake: the
versions that run are the versions that were tested.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from cutegen_core.records.errors import MachineError

WHEELS: Mapping[str, str] = {
    "nvidia-cuda-nvrtc": "nvidia-cuda-nvrtc>=13.0,<13.1",
    "nvidia-cuda-runtime": "nvidia-cuda-runtime>=13.0,<13.1",
    "nvidia-cuda-crt": "nvidia-cuda-crt>=13.0,<13.1",
    "nvidia-cuda-cccl": "nvidia-cuda-cccl>=13.0,<13.1",
    "nvidia-cutlass": "nvidia-cutlass==4.2.0.0",
    "nvidia-cuda-nvdisasm": "nvidia-cuda-nvdisasm>=13.2,<14",
    "ziglang": "ziglang>=0.17,<0.18",
}
"""Wheel name -> requirement to pass to pip when the wheel is missing."""

_TESTED: Mapping[str, str] = {
    "nvidia-cuda-nvrtc": "13.0.",
    "nvidia-cuda-runtime": "13.0.",
    "nvidia-cuda-crt": "13.0.",
    "nvidia-cuda-cccl": "13.0.",
    "nvidia-cutlass": "4.2.0",
    "nvidia-cuda-nvdisasm": "13.",
    "ziglang": "0.17.",
}
_CUDA = "nvidia/cu13"
MOMENT_S = 0.5


def find_nvrtc() -> Path:
    """Return the NVRTC library of the wheel; only the compile server loads it."""
    return _find("nvidia-cuda-nvrtc", f"{_CUDA}/lib/libnvrtc.so.13")


def find_nvrtc_builtins() -> Path:
    """Return the builtins library. NVRTC opens it by bare name, so load it by path first to get the matching one.

    Raises:
        MachineError: the package lacks it.
    """
    library = find_nvrtc()
    found = sorted(library.parent.glob("libnvrtc-builtins.so.13.*"))
    if not found:
        raise MachineError(_missing_text("nvidia-cuda-nvrtc", library.parent / "libnvrtc-builtins.so.13.*"))
    return found[-1]


def find_include_dirs() -> tuple[Path, ...]:
    """Return the folders of the CUTLASS, CUDA and CCCL headers, in this order; candidates include from these only."""
    return (
        _find("nvidia-cutlass", "cutlass_library/source/include/cute/tensor.hpp").parent.parent,
        _find("nvidia-cuda-runtime", f"{_CUDA}/include/cuda_fp16.h").parent,
        _find("nvidia-cuda-cccl", f"{_CUDA}/include/cccl/cuda/std/version").parent.parent.parent,
    )


def find_zig() -> list[str]:
    """Return the command that starts zig; append "c++" for its clang."""
    return [str(_find("ziglang", "ziglang/zig"))]


def find_nvdisasm() -> Path:
    """Return the path of nvdisasm, the disassembler of cubins."""
    return _find("nvidia-cuda-nvdisasm", f"{_CUDA}/bin/nvdisasm")


def installed_versions() -> Mapping[str, str]:
    """Return the version of every wheel of the toolchain, "" for a missing one.

    They are kept once all are found. One that is missing is looked for again a moment later, by every call: while
    packages are installed, or files cannot be opened, Python finds none and says no more about it.
    """
    with suppress(_MissingError):
        return _all_versions()
    importlib.invalidate_caches()
    time.sleep(MOMENT_S)
    return {wheel: installed_version(wheel) for wheel in WHEELS}


class _MissingError(Exception):
    """A wheel is missing."""


@functools.cache
def _all_versions() -> Mapping[str, str]:
    found = {wheel: installed_version(wheel) for wheel in WHEELS}
    if not all(found.values()):
        raise _MissingError
    return found


def is_tested(wheel: str) -> bool:
    """Tell whether the workbench was tested with the installed version."""
    return installed_versions()[wheel].startswith(_TESTED[wheel])


def installed_version(wheel: str) -> str:
    """Return the version of an installed distribution, or ""; reads metadata only and imports nothing."""
    try:
        return metadata.version(wheel) or ""
    except metadata.PackageNotFoundError:
        return ""


@functools.cache
def _find(wheel: str, inside: str) -> Path:
    try:
        path = Path(str(metadata.distribution(wheel).locate_file(inside)))
    except metadata.PackageNotFoundError as error:
        raise MachineError(_missing_text(wheel, None)) from error
    if not path.exists():
        raise MachineError(_missing_text(wheel, path))
    return path.resolve()


def _missing_text(wheel: str, path: Path | None) -> str:
    what = f"{path} is missing from the package {wheel}" if path else f"the package {wheel} is not installed"
    return f'{what}. Repair it with: python -m pip install --force-reinstall --no-deps "{WHEELS[wheel]}"'
