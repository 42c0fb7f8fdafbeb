"""Find what a compiled kernel reads of the machine instead of its arguments: clocks, timers, where it runs.

The emulator cannot answer as a GPU would, and two runs on a GPU differ: what depends on them cannot be tested. The
search is in the machine code, so it does not matter how the source hides a read. A kernel that needs one says so in its
plan, `reads` under [numerics].
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from cutegen_core.execute.compiler.machine_code import parse_machine_code
from cutegen_core.records.trial import Diagnostic

_REGISTER = re.compile(r"\bSR_(\w+)")
_READS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "clock": (re.compile(r"CLOCK\w*|GLOBALTIMER\w*"), "a clock or timer"),
    "sm": (re.compile(r"\w*SMID|NSMID"), "the number of its multiprocessor (smid)"),
    "warp": (re.compile(r"VIRTID|VIRTCFG|N?WARPID"), "the number of its hardware warp (warpid)"),
    "counter": (re.compile(r"PM\d*\w*|SNAP\w*"), "a performance counter"),
}
_NAMED = re.compile(rb"%(?:clock|globaltimer|n?smid|n?warpid|pm\d)")
_PTX = b"\0.target sm_"
_COMMUNICATES = re.compile(
    r"^(?:@!?U?P\w+ )?(?:ATOM|RED\b|REDG|MEMBAR|ERRBAR|CCTL|UTMA|UBLK|LD\S*\.STRONG|ST\S*\.STRONG)"
)
_OF_THE_BLOCK = re.compile(r"^(?:@!?U?P\w+ )?ATOMS")


def blocks_communicate(sass: str) -> bool:
    """Tell whether the kernels contain an instruction by which a block can wait for or signal another one."""
    return any(
        _COMMUNICATES.match(instruction.text) and not _OF_THE_BLOCK.match(instruction.text)
        for kernel in parse_machine_code(sass)
        for instruction in kernel.instructions
    )


def names_machine(cubin: bytes) -> bool:
    """Tell whether the PTX in a cubin names something of the machine, or the cubin has no PTX: then the machine code
    must be disassembled to know what it reads."""
    return _PTX not in cubin or bool(_NAMED.search(cubin))


def find_machine_reads(sass: str, declared: Collection[str]) -> tuple[Diagnostic, ...]:
    """Return an error for each undeclared read of the machine, and a warning for each declared one, by line."""
    found: dict[Diagnostic, None] = {}
    for kernel in parse_machine_code(sass):
        for instruction in kernel.instructions:
            register = _REGISTER.search(instruction.text)
            if register:
                found |= dict.fromkeys(_describe(register[1], instruction.line, declared))
    return tuple(sorted(found, key=lambda d: d.line))


def _describe(register: str, line: int, declared: Collection[str]) -> tuple[Diagnostic, ...]:
    for kind, (pattern, what) in _READS.items():
        if not pattern.fullmatch(register):
            continue
        if kind in declared:
            text = f"reads {what}, as it declares: what it makes of that is not tested"
            return (Diagnostic(line, "warning", text, "machine"),)
        advice = "" if kind == "counter" else f'; if that is meant, declare `reads = ["{kind}"]` under [numerics]'
        text = f"reads {what}: what depends on it differs from run to run and cannot be tested{advice}"
        return (Diagnostic(line, "error", text, "machine"),)
    return ()
