"""The host launcher bound to torch tensors: one function that takes every tensor of the contract, outputs last."""

from __future__ import annotations

from cutegen_core.share.exports.bundle import Bundle
from cutegen_core.share.exports.host_cpp import LAUNCH, device_code, header, host_launcher
from cutegen_core.share.exports.own_names import digest, in_namespace
from cutegen_core.share.exports.rendering import render

SCALAR_TYPES = {
    "float64": "at::kDouble", "float32": "at::kFloat", "float16": "at::kHalf", "bfloat16": "at::kBFloat16",
    "float8_e4m3fn": "at::kFloat8_e4m3fn", "float8_e5m2": "at::kFloat8_e5m2",
    "int64": "at::kLong", "int32": "at::kInt", "int16": "at::kShort", "int8": "at::kChar", "uint8": "at::kByte",
    "bool": "at::kBool",
}  # fmt: skip


def kernel_header(bundle: Bundle) -> str:
    """Return NAME.h."""
    return f"#pragma once\n{header(bundle)}"


def kernel_source(bundle: Bundle) -> str:
    """Return NAME.cu, which includes NAME.h."""
    include = f'#include "{bundle.name}.h"\n'
    return f"// Exported by {bundle.origin}.\n{device_code(bundle)}\n{include}\n{LAUNCH}\n{host_launcher(bundle)}"


def self_contained(bundle: Bundle) -> str:
    """Return NAME.cu with the header in place, to be compiled on its own."""
    include = f'#include "{bundle.name}.h"\n'
    return kernel_source(bundle).replace(include, header(bundle))


def own_scope(bundle: Bundle) -> str:
    """Return a namespace that no other export has, unless its text is the same."""
    return f"cutegen_{bundle.name}_{digest(self_contained(bundle))}"


def among_others(bundle: Bundle, more: str = "") -> str:
    """Return the code of NAME.cu in a namespace of its own, to stand in one file, or one library, with any other code.

    Args:
        more: further host code for the namespace.
    """
    scope = own_scope(bundle)
    host = f"{header(bundle)}\n{LAUNCH}\n{host_launcher(bundle)}\n{more}"
    return f"// Exported by {bundle.origin}.\n{device_code(bundle, scope)}\n{in_namespace(host, scope)}"


def binding(bundle: Bundle) -> str:
    """Return bindings.cpp, which defines `run(inputs..., parameters..., outputs...)`."""
    tensors = [
        {"name": t.name, "scalar_type": SCALAR_TYPES[t.dtype], "dtype": t.dtype} for t in bundle.signature.tensors
    ]
    return render("bindings.cpp.jinja", name=bundle.name, tensors=tensors, origin=bundle.origin)
