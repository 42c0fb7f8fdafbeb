"""Make both builds of a candidate, plain and checked, of the LLVM code that one front end wrote.

The front end takes nine tenths of a tensor-core kernel's compile. Its code has the checks of alignment and bounds,
marks for the thread checker, and permission to contract products and sums.

* checked: the thread checker's calls are put in; the processor named has no FMA, so nothing is contracted.
* plain: without these calls; the processor named has FMA if this one has, so products and sums are contracted.

Nothing is optimised again: a second time would remove accesses that race but whose values nobody uses.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.execute.emulator.compiling import run_compiler
from cutegen_core.execute.emulator.installation import Installation
from cutegen_core.machine.sandbox.sandbox import Completed

CODE = "candidate.ll"
_IMAGES = {False: "plain.so", True: "checked.so"}
_FEATURES = re.compile(r'("target-features"="[^"]*)"')
# What a check of alignment or bounds tells its handler: written as a variable, it would count as one of the kernel's.
_TOLD = re.compile(r"^(@\d+ = private unnamed_addr) global ")
# The thread checker's own constructor, where it is the only one; the runner refuses a plain build that has any.
_CONSTRUCTOR = (
    "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
    "[{ i32, ptr, ptr } { i32 0, ptr @tsan.module_ctor, ptr null }]"
)


def image_name(*, checked: bool) -> str:
    """Return the name of a build's shared object."""
    return _IMAGES[checked]


def make(installed: Installation, scratch: Path, timeout_s: float) -> Completed:
    """Make both images in `scratch` of its CODE; return how it ended, or how the first command that failed did.

    Args:
        timeout_s: limit of the processor time of each command.

    Raises:
        MachineError: the compiler cannot be run in its sandbox.
    """
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda checked: _make_one(installed, scratch, checked, timeout_s), (True, False)))
    return next((done for done in ended if done.limit or done.returncode != 0), ended[0])


def _make_one(installed: Installation, scratch: Path, checked: bool, timeout_s: float) -> Completed:
    compiler, image = installed.compiler, image_name(checked=checked)
    code, made = f"{image}.ll", f"{image}.o"
    with (
        open(scratch / CODE, encoding="latin-1", newline="") as written,
        open(scratch / code, "w", encoding="latin-1", newline="") as changed,
    ):
        changed.writelines(_change(line, checked) for line in written)
    commands = []
    if checked:
        commands.append([*compiler.compile, *compiler.checker_flags(), "-c", code, "-o", f"{image}.bc"])
        code = f"{image}.bc"
    commands.append([*compiler.compile, *compiler.machine_flags(), "-c", code, "-o", made])
    commands.append([*compiler.link_candidate, made, "-o", image])
    for command in commands:
        done = run_compiler(installed, command, scratch, timeout_s)
        if done.limit or done.returncode != 0:
            break
    return done


def _change(line: str, checked: bool) -> str:
    """Return a line of the code as a build needs it."""
    if line.startswith("@"):
        return "" if not checked and line.startswith(_CONSTRUCTOR) else _TOLD.sub(r"\1 constant ", line)
    if line.startswith("attributes #") and not checked:
        added = "".join(f",+{feature}" for feature in host_compiler.contraction_features())
        return _FEATURES.sub(rf'\1{added}"', line).replace(" sanitize_thread", "")
    return line
