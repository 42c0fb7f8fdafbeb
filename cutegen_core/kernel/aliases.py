"""Find launches that break a kernel's promise that a `__restrict__` pointer is the only way to its memory.

The compiler may then load through the read-only cache, which is not told of writes; the emulator has no such cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.kernel.preprocessing import blank_code
from cutegen_core.records.launch import LaunchPlan, TensorArgument
from cutegen_core.records.trial import Diagnostic

_RESTRICT = re.compile(r"\b__restrict(?:__)?\b")


class Promise(NamedTuple):
    """What a parameter's declaration says: restricted, and whether one can write through it."""

    restricted: bool
    writable: bool


Promises = Mapping[str, tuple[Promise, ...]]
"""Of each kernel's parameters, by the plan's name of the kernel."""


def find_restricted(kernel: KernelFile) -> Promises:
    """Read the parameters of every kernel that the plan launches."""
    heads = [head for head in re.split(r"[;{}]", blank_code(kernel)) if "__global__" in head]
    return {launch.kernel: _read_parameters(launch.function, heads) for launch in kernel.launches}


def _read_parameters(function: str, heads: Iterable[str]) -> tuple[Promise, ...]:
    for head in heads:
        start = re.search(rf"\b{function}\s*\(", head)
        if start:
            parameters = _split(head[start.end() : head.rfind(")")])
            return tuple(Promise(bool(_RESTRICT.search(p)), not _points_to_const(p)) for p in parameters)
    return ()


def check_restricted(plan: LaunchPlan, promises: Promises) -> tuple[Diagnostic, ...]:
    """Return an error for each tensor that a launch passes twice, once as restricted and once to be written."""
    found = []
    for launch in plan.launches:
        facts = promises.get(launch.kernel, ())
        given = [a.name if isinstance(a, TensorArgument) else "" for a in launch.args]
        for name in dict.fromkeys(filter(None, given)):
            places = [facts[i] for i, other in enumerate(given) if other == name and i < len(facts)]
            if len(places) > 1 and any(p.restricted for p in places) and any(p.writable for p in places):
                text = (
                    f"{launch.kernel}: {name} is passed twice, once as __restrict__ and once to be written: the "
                    "compiler may read older values through the read-only cache; remove __restrict__, or pass it once"
                )
                found.append(Diagnostic(launch.line, "error", text, "plan"))
    return tuple(found)


def _points_to_const(parameter: str) -> bool:
    return re.search(r"\bconst\b", parameter.split("*")[0]) is not None


def _split(text: str) -> list[str]:
    """Split a parameter list at its top-level commas."""
    cuts, depth = [-1], 0
    for match in re.finditer(r"[<>()\[\],]", text):
        depth += (match[0] in "<([") - (match[0] in ">)]")
        if match[0] == "," and depth == 0:
            cuts.append(match.start())
    return [text[low + 1 : high] for low, high in pairwise([*cuts, len(text)])]
