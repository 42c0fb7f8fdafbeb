"""Compare the plan's arguments with the compiled kernel's parameters before anything runs.

The driver checks none of this: too few arguments crash the process, and swapped arguments are accepted silently. The
parameter types come from the demangled signature, such as `void relu<256>(float const*, float*, long)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.records.launch import Argument, Launch, LaunchPlan, ScalarArgument, TensorArgument, TensorMapArgument
from cutegen_core.records.problem import ITEMSIZE
from cutegen_core.records.trial import Diagnostic, KernelResources

_HALF = {name: "float16" for name in ("__half", "half", "cutlass::half_t", "cute::half_t", "_Float16")}
_BFLOAT = {
    name: "bfloat16" for name in ("__nv_bfloat16", "nv_bfloat16", "cutlass::bfloat16_t", "cute::bfloat16_t", "__bf16")
}
_FLOAT8 = {
    **dict.fromkeys(("__nv_fp8_e4m3", "__nv_fp8x2_e4m3", "__nv_fp8x4_e4m3", "cutlass::float_e4m3_t"), "float8_e4m3fn"),
    **dict.fromkeys(("__nv_fp8_e5m2", "__nv_fp8x2_e5m2", "__nv_fp8x4_e5m2", "cutlass::float_e5m2_t"), "float8_e5m2"),
    **{f"cute::float_{name}_t": dtype for name, dtype in (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"))},
}
_VECTORS = {
    "__half2": "float16", "half2": "float16", "__nv_bfloat162": "bfloat16", "nv_bfloat162": "bfloat16",
    **{f"float{n}": "float32" for n in (1, 2, 3, 4)}, **{f"double{n}": "float64" for n in (1, 2, 3, 4)},
    **{f"int{n}": "int32" for n in (1, 2, 3, 4)}, **{f"longlong{n}": "int64" for n in (1, 2)},
}  # fmt: skip
_ELEMENTS: Mapping[str, str] = {
    **_HALF, **_BFLOAT, **_FLOAT8, **_VECTORS,
    "float": "float32", "cutlass::tfloat32_t": "float32", "double": "float64", "bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "int": "int32",
    "unsigned int": "int32", "unsigned": "int32", "long": "int64", "unsigned long": "int64", "long long": "int64",
    "unsigned long long": "int64",
}  # fmt: skip
_RAW = frozenset(
    ("void", "uint1", "uint2", "uint4", "ulonglong2", "cutlass::uint128_t", "cute::uint128_t", "unsigned __int128")
)
"""Pointers to these types accept a tensor of any dtype: they only move bytes, as 128-bit copies do."""

_INTEGER_BITS: Mapping[str, tuple[int, bool]] = {
    "bool": (1, False), "char": (8, True), "signed char": (8, True), "unsigned char": (8, False),
    "short": (16, True), "unsigned short": (16, False), "int": (32, True), "unsigned int": (32, False),
    "unsigned": (32, False), "long": (64, True), "unsigned long": (64, False), "long long": (64, True),
    "unsigned long long": (64, False),
}  # fmt: skip
_FLOATS = ("float", "double")
TENSOR_MAP_TYPES = frozenset(("cute::TmaDescriptor", "CUtensorMap", "CUtensorMap_st"))
"""Names of the same 128 opaque bytes. NVRTC has no cuda.h; CuTe has a name of its own there."""
_OUTPUT = re.compile(r"out\d*")


@dataclass(frozen=True)
class ParameterType:
    """One parameter of a compiled kernel.

    Attributes:
        text: as the compiler spells it.
        base: pointee or value type, without const and restrict.
        pointer: whether it is a pointer (one level).
        writable: whether it points to non-const.
    """

    text: str
    base: str
    pointer: bool
    writable: bool


def check_arguments(plan: LaunchPlan, kernels: Sequence[KernelResources]) -> tuple[Diagnostic, ...]:
    """Return the arguments that do not fit, launch by launch; an error must stop the trial, a warning need not."""
    compiled = {k.kernel: k for k in kernels}
    found: list[Diagnostic] = []
    for launch in plan.launches:
        if launch.kernel not in compiled:
            found.append(_error(launch, f"{launch.kernel} was not compiled"))
            continue
        types = parse_parameters(compiled[launch.kernel].signature)
        scratch = frozenset(s.name for s in plan.scratch if launch.once or not s.kept)
        found += _check_launch(launch, types, scratch, kept=frozenset(s.name for s in plan.scratch) - scratch)
    return tuple(dict.fromkeys(found))


def parse_parameters(signature: str) -> tuple[ParameterType, ...]:
    """Parse the parameters of a demangled signature, in order."""
    return tuple(_parse_parameter(text) for text in _split(signature))


def _split(signature: str) -> list[str]:
    """Split the last pair of parentheses at its top-level commas."""
    text = signature.strip()
    end = text.rindex(")")
    depth, start = 0, end
    for position in range(end, -1, -1):
        depth += {")": 1, "(": -1}.get(text[position], 0)
        if depth == 0:
            start = position
            break
    parts, depth, current = [], 0, ""
    for character in text[start + 1 : end]:
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    last = current.strip()
    return [*parts, last] if last and last != "void" else parts


def _parse_parameter(text: str) -> ParameterType:
    bare = re.sub(r"\b(?:__restrict__|__restrict|restrict|volatile|struct|class)\b", " ", text).strip()
    pointee = re.fullmatch(r"(.*?)\s*\*\s*(?:const)?", bare)
    base = " ".join(re.sub(r"\bconst\b", " ", pointee[1] if pointee else bare).split())
    array = re.match(r"cutlass::(?:Array|AlignedArray)<\s*([\w: ]+?)\s*,", base)
    return ParameterType(
        text=text,
        base=array[1] if array and pointee else base.removeprefix("std::"),
        pointer=pointee is not None,
        writable=pointee is not None and not re.search(r"\bconst\b", pointee[1]),
    )


def _check_launch(
    launch: Launch, types: tuple[ParameterType, ...], scratch: frozenset[str], kept: frozenset[str]
) -> Iterator[Diagnostic]:
    name = launch.kernel.split("<")[0]
    if len(types) != len(launch.args):
        plural = "s" if len(types) != 1 else ""
        listed = ", ".join(t.text for t in types)
        yield _error(
            launch, f"{name} expects {len(types)} parameter{plural} ({listed}), the plan gives {len(launch.args)}"
        )
        return

    def writable(tensor: str) -> bool:
        return tensor in scratch or _OUTPUT.fullmatch(tensor) is not None

    for position, (argument, wanted) in enumerate(zip(launch.args, types, strict=True), 1):
        place = f"parameter {position} of {name} is '{wanted.text}'"
        if problem := _find_problem(argument, wanted):
            yield _error(launch, f"{place}, but {problem}")
        elif isinstance(argument, TensorArgument) and wanted.writable and not writable(argument.name):
            what = "made by a launch marked once" if argument.name in kept else "an input"
            text = f"{place}, but {argument.name} is {what} and is mapped read-only: write const"
            yield Diagnostic(launch.line, "warning", text, "plan")


def _find_problem(argument: Argument, wanted: ParameterType) -> str:
    """Explain why the parameter cannot take this argument; "" if it can."""
    match argument:
        case TensorArgument():
            return _find_tensor_problem(argument, wanted)
        case TensorMapArgument():
            return _find_tensor_map_problem(argument, wanted)
    return _find_scalar_problem(argument, wanted)


def _find_tensor_problem(argument: TensorArgument, wanted: ParameterType) -> str:
    """Explain why the parameter cannot take this tensor; "" if it can."""
    given = f"the plan gives the tensor {argument.name} of {argument.dtype}"
    if wanted.base in TENSOR_MAP_TYPES:
        return f"{given}: describe it in a [[tensormap]] and give that by its name"
    if not wanted.pointer:
        return f"{given}: a tensor needs a pointer"
    if wanted.base in _RAW:
        return ""
    element = _ELEMENTS.get(wanted.base)
    if element is None:
        return f"{given}: pointers to '{wanted.base}' are not known here"
    if element == argument.dtype or {element, argument.dtype} <= {"bool", "uint8"}:
        return ""
    if element == "uint8" and argument.dtype in _FLOAT8.values():  # CUDA's storage type of 8-bit floats
        return ""
    sizes = f"{ITEMSIZE[element]} bytes an element against {ITEMSIZE[argument.dtype]}"
    return f"{given} ({sizes})" if ITEMSIZE[element] != ITEMSIZE[argument.dtype] else given


def _find_tensor_map_problem(argument: TensorMapArgument, wanted: ParameterType) -> str:
    """Explain why the parameter cannot take this tensor map; "" if it can."""
    if wanted.base in TENSOR_MAP_TYPES and not wanted.pointer:
        return ""
    needed = f"take it by value, const __grid_constant__ CUtensorMap {argument.name}"
    return f"the plan gives the tensor map {argument.name}: {needed}"


def _find_scalar_problem(argument: ScalarArgument, wanted: ParameterType) -> str:
    """Explain why the parameter cannot take this number; "" if it can."""
    given = f"the plan gives the number {argument.value} ('{argument.text}')"
    if wanted.pointer:
        return f"{given}: a pointer needs a tensor or a scratch buffer"
    if wanted.base in _FLOATS:
        return ""
    if wanted.base not in _INTEGER_BITS:
        return f"{given}: numbers can be passed as bool, integers, float and double only"
    if not isinstance(argument.value, int):
        return f"{given}: a whole number is needed"
    bits, signed = _INTEGER_BITS[wanted.base]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return "" if low <= argument.value <= high else f"{given}: it does not fit ({low} to {high}); use a wider type"


def _error(launch: Launch, message: str) -> Diagnostic:
    return Diagnostic(launch.line, "error", message, "plan")
