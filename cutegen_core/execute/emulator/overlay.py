"""Write the overlay: copies of CUTLASS headers with interpreter calls for inline PTX, included before the originals.

The source is the installed nvidia-cutlass wheel. The rewriter was tested on one version: `asm_counts.json` holds the
number of statements in every header, and a difference stops the build.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from cutegen_core.execute.compiler import lean_cute
from cutegen_core.execute.emulator.asm_statements import AsmError, Rewritten, rewrite_asm
from cutegen_core.records.errors import MachineError

_REPLACEMENTS: Mapping[str, tuple[tuple[str, str, int], ...]] = {
    # `thread0()` and similar functions test `__CUDA_ARCH__`, undefined at that point; they would always be true.
    "cute/util/debug.hpp": (("\n{\n#if defined(__CUDA_ARCH__)\n", "\n{\n#if 1\n", 2),),
    # A host has no warps and no atomics: these return 0, or false, or do nothing.
    "cutlass/cutlass.h": (("  #if defined(__CUDA_ARCH__)\n", "  #if 1\n", 5),),
    "cutlass/functional.h": (
        ("#if defined(__CUDA_ARCH__)\n    atomicAdd(", "#if 1\n    atomicAdd(", 1),
        ("#if defined(__CUDA_ARCH__)\n    return atomicMax(", "#if 1\n    return atomicMax(", 1),
        ("#if defined(__CUDA_ARCH__)\n    // In device code", "#if 1\n    // In device code", 1),
        ("#if !defined(__CUDA_ARCH__)\n    CUTLASS_UNUSED(ptr);", "#if 0\n    CUTLASS_UNUSED(ptr);", 1),
        ("#elif (__CUDA_ARCH__ >= 600)\n    atomicAdd(", "#elif 1\n    atomicAdd(", 1),
        ("#if !defined(__CUDA_ARCH__) || (defined(__CUDA_ARCH__)  && (__CUDA_ARCH__ < 600))\n", "#if 0\n", 1),
        ("#elif defined(__CUDA_ARCH__)\n", "#elif 1\n", 2),
    ),
    # These test nvcc's version; the emulator supports what they switch on.
    "cutlass/arch/barrier.h": (
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ >= 12)\n", "#if 1\n", 1),
    ),
    # Said at once, it orders the threads of a block, too, with less bookkeeping than arriving and waiting apart.
    "cute/arch/cluster_sm90.hpp": (
        ("  cluster_arrive();\n  cluster_wait();\n", '  emu_cluster_sync(__LINE__, "");\n', 1),
    ),
    "cute/arch/copy_sm90_desc.hpp": (
        ("#if (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)\n  using", "#if 1\n  using", 1),
    ),
}


def load_asm_counts() -> Mapping[str, int]:
    """Return the tested number of inline assembly statements by header, a path below the include folder."""
    text = resources.files("cutegen_core.execute.emulator").joinpath("asm_counts.json").read_text()
    counts: dict[str, int] = json.loads(text)
    return counts


# Short vectors are copied member by member: the compiler does not check the alignment of a copy of
# plain memory. Type -> number and type of its members.
_VECTORS: Mapping[str, tuple[int, str]] = {
    "short4": (4, "short"), "ushort4": (4, "unsigned short"), "int2": (2, "int"), "uint2": (2, "unsigned int"),
    "int4": (4, "int"), "uint4": (4, "unsigned int"), "float2": (2, "float"), "float4": (4, "float"),
    "longlong2": (2, "long long int"), "ulonglong2": (2, "unsigned long long int"), "double2": (2, "double"),
    "char4": (4, "signed char"), "uchar4": (4, "unsigned char"),
    "short2": (2, "short"), "ushort2": (2, "unsigned short"),
}  # fmt: skip
VECTOR_HEADER = "vector_types.h"
# CUDA headers that are replaced by the prelude's own.
_STAND_INS: Mapping[str, str] = {
    "cooperative_groups.h": "cooperative_groups.hpp", "cooperative_groups/reduce.h": "cooperative_groups.hpp",
    "cooperative_groups/scan.h": "cooperative_groups.hpp", "cuda_pipeline.h": "pipeline.hpp",
    "cuda_pipeline_primitives.h": "pipeline.hpp", "mma.h": "wmma.hpp",
}  # fmt: skip


def list_headers() -> tuple[str, ...]:
    """Return every header of the overlay, as paths below the include folder."""
    return tuple(sorted({*load_asm_counts(), *_REPLACEMENTS, *lean_cute.CHANGES}))


def generate(include: Path, target: Path) -> None:
    """Write the overlay of the CUTLASS headers below `include` into `target`.

    Raises:
        MachineError: a header is missing, or its number of statements differs from the tested number.
    """
    wanted = load_asm_counts()
    _check_no_others(include, wanted)
    for name in list_headers():
        source = include / name
        if not source.is_file():
            raise MachineError(f"{source} is missing. {_ADVICE}")
        text = _replace(name, source.read_text())
        rewritten = _rewrite(name, text)
        if rewritten.statements != wanted.get(name, 0):
            raise MachineError(
                f"{name} has {rewritten.statements} inline PTX statements; this version of the workbench was tested "
                f"with {wanted.get(name, 0)}. {_ADVICE}"
            )
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.write_text(f'#line 1 "{source}"\n{rewritten.text}')
    for header in lean_cute.HEADERS:
        shutil.copy(header, target)


def generate_vectors(cuda_include: Path, target: Path) -> None:
    """Write CUDA's `vector_types.h` with members that check alignment (`EMU_COPY2`, `EMU_COPY4` of the prelude).

    Raises:
        MachineError: a vector type's declaration differs from the tested version.
    """
    text = (cuda_include / VECTOR_HEADER).read_text()
    for name, (extent, element) in _VECTORS.items():
        declared = re.compile(rf"(\b{name}\s*\{{[^}}]*|__cuda_builtin_vector_align8\({name},[^)]*)(?=\}};|\);)")
        text, found = declared.subn(rf"\1 EMU_COPY{extent}({name}, {element})", text)
        if found == 0:
            raise MachineError(f"{VECTOR_HEADER} declares no {name} as the tested version does. {_ADVICE_CUDA}")
    target.mkdir(parents=True, exist_ok=True)
    (target / VECTOR_HEADER).write_text(text)


def generate_stand_ins(target: Path) -> None:
    """Write headers that only include one of the prelude's headers."""
    runtime = resources.files("cutegen_core.execute.emulator").joinpath("runtime")
    for name, own in _STAND_INS.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(f'#include "{runtime.joinpath(own)}"\n')


_ASM = re.compile(r"^[^/\n]*\b(?:asm|__asm__|__asm)\b[\s\w]*\(", re.MULTILINE)
_ADVICE_CUDA = 'Install the tested version: pip install "nvidia-cuda-runtime>=13.0,<13.1"'
_ADVICE = f"Install the tested version: pip install {lean_cute.TESTED}"


def _rewrite(name: str, text: str) -> Rewritten:
    try:
        return rewrite_asm(text)
    except AsmError as error:
        raise MachineError(f"{name}, line {error.line}: {error}. {_ADVICE}") from error


def _replace(name: str, text: str) -> str:
    for old, new, times in _REPLACEMENTS.get(name, ()):
        if text.count(old) != times:
            raise MachineError(f"{name} does not read as in the tested version. {_ADVICE}")
        text = text.replace(old, new)
    return lean_cute.rewrite(name, text) if name in lean_cute.CHANGES else text


def _check_no_others(include: Path, wanted: Mapping[str, int]) -> None:
    others = sorted(set(_find_assembly(include)) - set(wanted))
    if others:
        raise MachineError(f"{', '.join(others)}: inline PTX that was not there in the tested version. {_ADVICE}")


def _find_assembly(include: Path) -> list[str]:
    found = []
    for path in sorted([*include.glob("cute/**/*.h*"), *include.glob("cutlass/**/*.h*")]):
        if _ASM.search(path.read_text()):
            found.append(path.relative_to(include).as_posix())
    return found


if __name__ == "__main__":
    generate(Path(sys.argv[1]), Path(sys.argv[3]))
    generate_vectors(Path(sys.argv[2]), Path(sys.argv[3]))
    generate_stand_ins(Path(sys.argv[3]))
