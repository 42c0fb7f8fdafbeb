"""Turn a program into a header whose templates an edit of it finds instantiated, where that changes nothing else.

The program becomes part of a namespace of its own, and its kernels become functions that nobody calls. What would still
reach an edit from there (macros, variables, names in the libraries' namespaces) makes it no such header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(\w*)(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]*[>\"]).*$", re.MULTILINE)
_HARMLESS = ("include", "line", "pragma")
_REACHES_OUT = re.compile(
    r'\bextern\s*"C"|(?<!using\s)\bnamespace\s+(?:cute|cutlass|cuda|std|__\w+)\b|__constant__|__managed__'
    # A variable of the device: __device__, and no parameter list before the end of the declaration.
    r"|__device__[^(){};=]*(?:=|;|\[|\{)"
    # Where a line that looks like a directive may be none, or the other way round.
    r'|\\\n|\bR"|/\*(?:[^*]|\*(?!/))*[#%]'
)
_KERNELS_ONLY = re.compile(
    r"__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\((?:[^()]|\([^()]*\))*\)|__grid_constant__"
)
NAMESPACE = "cutegen_parent"


def as_header(program: str, names: Sequence[str]) -> str:
    """Return the header, or "" where an edit could see more of the program than its templates.

    Args:
        names: the kernels that are compiled, with template arguments.
    """
    directives = {found[1] for found in _DIRECTIVE.finditer(program)}
    if _REACHES_OUT.search(program) or not directives <= {*_HARMLESS, ""}:
        return ""
    body = _DIRECTIVE.sub(lambda found: found[0] if found[1] == "pragma" else "", program)
    body = _KERNELS_ONLY.sub("", body).replace("__global__", "static __device__")
    uses = " ".join(f"(void)&{name};" for name in names)
    includes = "".join(f"#include {name}\n" for name in _INCLUDE.findall(program))
    return f"{includes}namespace {NAMESPACE} {{\n{body}\nstatic __device__ void use_kernels() {{ {uses} }}\n}}\n"


def fits(parent: str, program: str) -> bool:
    """Tell whether a program sees nothing of the parent's header that it would not see without.

    It includes whatever the parent includes, and declares nothing in the namespaces of libraries, where templates were
    instantiated before.
    """
    return set(_INCLUDE.findall(parent)) <= set(_INCLUDE.findall(program)) and not _REACHES_OUT.search(program)
