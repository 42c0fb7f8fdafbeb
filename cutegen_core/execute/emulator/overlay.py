"""The overlay: CUTLASS headers with inline PTX turned into interpreter calls, laid before the installed ones.

Made from the installed nvidia-cutlass wheel at first use. The rewriter was tested on one version: the number of
statements in every header is written down in `load_asm_counts.json`, and a difference stops the build.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from cutegen_core.execute.emulator.asm_statements import AsmError, Rewritten, rewrite_asm
from cutegen_core.records.errors import MachineError

_REPLACEMENTS: Mapping[str, tuple[tuple[str, str, int], ...]] = {
    # `thread0()` and its kin ask `__CUDA_ARCH__` at a time when it must not be defined, and would be true everywhere.
    "cute/util/debug.hpp": (("\n{\n#if defined(__CUDA_ARCH__)\n", "\n{\n#if 1\n", 2),),
    # What asks for nvcc's version: the emulator has what these switch on.
    "cutlass/arch/barrier.h": (
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && (__CUDACC_VER_MAJOR__ >= 12)\n", "#if 1\n", 1),
    ),
    "cute/arch/copy_sm90_desc.hpp": (
        ("#if (__CUDACC_VER_MAJOR__ >= 12) && !defined(__CUDACC_RTC__)\n  using", "#if 1\n  using", 1),
    ),
}


def load_asm_counts() -> Mapping[str, int]:
    """Tested number of inline assembly statements per header, by path below the include folder."""
    text = resources.files("cutegen_core.execute.emulator").joinpath("load_asm_counts.json").read_text()
    counts: dict[str, int] = json.loads(text)
    return counts


# In a checked build the short vectors copy themselves through members, since the compiler checks no alignment where it
# copies them as plain memory. Members by type: how many, and of what.
_VECTORS: Mapping[str, tuple[int, str]] = {
    "short4": (4, "short"), "ushort4": (4, "unsigned short"), "int2": (2, "int"), "uint2": (2, "unsigned int"),
    "int4": (4, "int"), "uint4": (4, "unsigned int"), "float2": (2, "float"), "float4": (4, "float"),
    "longlong2": (2, "long long int"), "ulonglong2": (2, "unsigned long long int"), "double2": (2, "double"),
    "char4": (4, "signed char"), "uchar4": (4, "unsigned char"),
    "short2": (2, "short"), "ushort2": (2, "unsigned short"),
}  # fmt: skip
VECTOR_HEADER = "vector_types.h"
# Headers of CUDA that the prelude's own take the place of.
_STAND_INS: Mapping[str, str] = {
    "cooperative_groups.h": "cooperative_groups.hpp", "cooperative_groups/reduce.h": "cooperative_groups.hpp",
    "cooperative_groups/scan.h": "cooperative_groups.hpp", "cuda_pipeline.h": "pipeline.hpp",
    "cuda_pipeline_primitives.h": "pipeline.hpp", "mma.h": "wmma.hpp",
}  # fmt: skip


def list_headers() -> tuple[str, ...]:
    """Every header the overlay holds, by path below the include folder."""
    return tuple(sorted({*load_asm_counts(), *_REPLACEMENTS}))


def generate(include: Path, target: Path) -> None:
    """Writes the overlay of the CUTLASS headers below `include` into `target`.

    Raises:
        MachineError: a header is missing, or its statements are not the ones this version was tested with.
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


def generate_vectors(cuda_include: Path, target: Path) -> None:
    """Writes CUDA's `vector_types.h` with members that check alignment (`EMU_COPY2`, `EMU_COPY4` of the prelude).

    Raises:
        MachineError: a vector type is not declared as in the tested version.
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
    """Writes headers that only lead to one of the prelude's."""
    runtime = resources.files("cutegen_core.execute.emulator").joinpath("runtime")
    for name, own in _STAND_INS.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(f'#include "{runtime.joinpath(own)}"\n')


def count_statements(include: Path) -> dict[str, int]:
    """Counts as `load_asm_counts.json` holds them, for moving to another CUTLASS version on purpose."""
    counts = {}
    for name in _find_assembly(include):
        counts[name] = _rewrite(name, (include / name).read_text()).statements
    return counts


_ASM = re.compile(r"^[^/\n]*\b(?:asm|__asm__|__asm)\b[\s\w]*\(", re.MULTILINE)
_ADVICE_CUDA = 'Install the tested version: pip install "nvidia-cuda-runtime>=13.0,<13.1"'
_ADVICE = "Install the tested version: pip install nvidia-cutlass==4.2.0.0"


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
    return text


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
