"""Parse the report of `ptxas -v` for each kernel: registers, spills, stack, static shared memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class KernelUsage(NamedTuple):
    """The resources of one entry function."""

    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    smem_static_bytes: int = 0


_ENTRY = re.compile(r"Compiling entry function '(\S+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SMEM = re.compile(r"(\d+) bytes smem")


def parse_usages(log: str) -> Mapping[str, KernelUsage]:
    """Parse the log: mangled name of every entry function -> its resources."""
    found: dict[str, KernelUsage] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
            found[entry] = KernelUsage()
        elif match := _FUNCTION.search(line):
            function = match[1].rstrip("'\"").lstrip("'\"")
        elif (match := _FRAME.search(line)) and function in found:
            stack, stores, loads = (int(group) for group in match.groups())
            found[function] = found[function]._replace(
                stack_bytes=stack, spill_store_bytes=stores, spill_load_bytes=loads
            )
        elif (match := _REGISTERS.search(line)) and entry in found:
            smem = _SMEM.search(line)
            found[entry] = found[entry]._replace(registers=int(match[1]), smem_static_bytes=int(smem[1]) if smem else 0)
    return found
