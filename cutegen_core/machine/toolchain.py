"""Where the compilers and headers are: always inside their PyPI wheels, found by explicit path, never by search path.

So an installed CUDA toolkit, or the NVRTC that some torch builds bring along, can neither be picked up by mistake nor
clash: what was tested is what runs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
"""Wheel name -> what pip is to be told when it is missing."""

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


def nvrtc_library() -> Path:
    """The NVRTC of the wheel; loaded in the compile server only."""
    return _find("nvidia-cuda-nvrtc", f"{_CUDA}/lib/libnvrtc.so.13")


def nvrtc_builtins() -> Path:
    """What NVRTC opens by bare name as it compiles: loaded first, by path, so that the right one is found."""
    library = nvrtc_library()
    found = sorted(library.parent.glob("libnvrtc-builtins.so.13.*"))
    if not found:
        raise MachineError(_missing("nvidia-cuda-nvrtc", library.parent / "libnvrtc-builtins.so.13.*"))
    return found[-1]


def include_dirs() -> tuple[Path, ...]:
    """CUTLASS, CUDA and CCCL headers, in this order; the only folders a candidate may include from."""
    return (
        _find("nvidia-cutlass", "cutlass_library/source/include/cute/tensor.hpp").parent.parent,
        _find("nvidia-cuda-runtime", f"{_CUDA}/include/cuda_fp16.h").parent,
        _find("nvidia-cuda-cccl", f"{_CUDA}/include/cccl/cuda/std/version").parent.parent.parent,
    )


def zig() -> list[str]:
    """The command that starts zig; add "c++" for its clang."""
    return [str(_find("ziglang", "ziglang/zig"))]


def nvdisasm() -> Path:
    """The disassembler of cubins."""
    return _find("nvidia-cuda-nvdisasm", f"{_CUDA}/bin/nvdisasm")


@functools.cache
def versions() -> Mapping[str, str]:
    """Version of every wheel of the toolchain, "" for a missing one."""
    return {wheel: installed_version(wheel) for wheel in WHEELS}


def is_tested(wheel: str) -> bool:
    """Whether the installed version is one the workbench was tested with."""
    return versions()[wheel].startswith(_TESTED[wheel])


def installed_version(wheel: str) -> str:
    """Version of an installed distribution, "" when there is none; imports nothing of it."""
    try:
        return metadata.version(wheel)
    except metadata.PackageNotFoundError:
        return ""


@functools.cache
def _find(wheel: str, inside: str) -> Path:
    try:
        path = Path(str(metadata.distribution(wheel).locate_file(inside)))
    except metadata.PackageNotFoundError as error:
        raise MachineError(_missing(wheel, None)) from error
    if not path.exists():
        raise MachineError(_missing(wheel, path))
    return path.resolve()


def _missing(wheel: str, path: Path | None) -> str:
    what = f"{path} is missing from the package {wheel}" if path else f"the package {wheel} is not installed"
    return f'{what}. Repair it with: python -m pip install --force-reinstall --no-deps "{WHEELS[wheel]}"'
