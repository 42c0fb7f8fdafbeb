"""Disassemble a cubin to SASS, its machine code as text, and count each kernel's instructions by kind.

The counts are static: an instruction in a loop counts once. nvdisasm comes from its wheel and runs in the sandbox,
because the cubin was compiled from untrusted source.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from cutegen_core.machine import toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import Policy
from cutegen_core.records.errors import MachineError, WorkerLimitError

_TIMEOUT_S = 60.0
_MEMORY_BYTES = 4 << 30
_MOST_SASS_BYTES = 128 << 20

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)", re.MULTILINE)
_CONSTANT_MOVE = re.compile(r"\bHFMA2(?:\.MMA)?(?=\s+R\d+, -RZ, RZ,)")
"""0 * 0 + constant: ptxas loads constants like this when the other pipes are busy; the kernel computes nothing."""
_PLACES = re.compile(r'(?:^[ \t]*//## File "[^"\n]*", line \d+[^\n]*\n)+', re.MULTILINE)
"""The places of the code that follows: a line of a header, the line it was inlined at, ..., a line of the candidate."""
_PLACE = re.compile(r'File ("[^"\n]*"), line (\d+)')
_WIDTH = re.compile(r"\.(128|64|U16|S16|16|U8|S8|8)\b")

_SIZED = {"LDG": "global load", "STG": "global store", "LDS": "shared load", "STS": "shared store"}
_EXACT = {
    **dict.fromkeys(("LDGSTS", "LDGDEPBAR"), "async copy"),
    **dict.fromkeys(("LDSM", "STSM", "MOVM"), "matrix load/store"),
    **dict.fromkeys(("LDL", "STL"), "local memory (spill)"),
    **dict.fromkeys(("LD", "ST"), "generic load/store"),
    **dict.fromkeys(("LDC", "ULDC", "LDCU"), "constant load"),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS", "CCTL"), "atomic"),
    **dict.fromkeys(("FFMA", "FFMA2", "FFMA32I"), "FFMA"),
    **dict.fromkeys(("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX"), "shuffle/vote"),
    **dict.fromkeys(("BAR", "SYNCS", "DEPBAR", "MEMBAR", "ERRBAR", "FENCE", "WARPGROUP", "WARPSYNC", "UCGABAR_ARV",
                     "UCGABAR_WAIT", "ARRIVES", "WARPGROUPSET"), "barrier"),
    **dict.fromkeys(("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BREAK", "BMOV", "KILL", "BPT",
                     "NANOSLEEP", "YIELD", "ACQBULK", "ELECT", "PREEXIT", "USETMAXREG"), "control"),
    **dict.fromkeys(("MOV", "UMOV", "PRMT", "UPRMT", "SEL", "USEL", "FSEL", "S2R", "S2UR", "CS2R", "R2UR", "R2P",
                     "P2R", "UP2UR"), "move/select"),
    **dict.fromkeys(("F2F", "F2FP", "F2I", "F2IP", "I2F", "I2FP", "FRND", "I2I", "I2IP"), "conversion"),
    "MUFU": "special function",
}  # fmt: skip
_PREFIXES = (
    (re.compile(r"(?:[HIDBQO]|HG|QG|IG|BG|UTC\w*)MMA"), "MMA"),
    (re.compile(r"UTMA|UBLK"), "TMA"),
    (re.compile(r"H(?:FMA|ADD|MUL|MNMX|SET|SETP)2"), "fp16/bf16 arithmetic"),
    (re.compile(r"D(?:FMA|ADD|MUL|SETP|MNMX)"), "fp64 arithmetic"),
    (re.compile(r"F(?:ADD|MUL|MNMX|SET|CHK|SWZADD)"), "fp32 arithmetic"),
    (re.compile(r"U?(?:I|LEA|SHF|SHL|SHR|LOP|PLOP|BREV|POPC|FLO|BMSK|SGXT|VI|XMAD|BFE|BFI)"), "integer"),
)


def disassemble(cubin: bytes) -> str:
    """Return the code sections as text, with shortened paths.

    Before each group of instructions stands its source line and, if that is in a header, the candidate's line at which
    it was inlined.

    Raises:
        WorkerLimitError: the kernel is too large for nvdisasm's limits.
        MachineError: nvdisasm is missing or failed.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        path = Path(folder) / "candidate.cubin"
        path.write_bytes(cubin)
        policy = Policy(read=(path,), write=(), memory_bytes=_MEMORY_BYTES, cpu_seconds=int(_TIMEOUT_S), file_bytes=0)
        command = [
            str(toolchain.find_nvdisasm()),
            "--print-code",
            "--print-line-info-inline",
            "--no-dataflow",
            str(path),
        ]
        done = sandbox.run(
            command, policy, cwd=Path(folder), env={}, timeout_s=_TIMEOUT_S, output_limit_bytes=_MOST_SASS_BYTES
        )
    if done.limit:
        size = f"a cubin of {len(cubin) / 1e6:.1f} MB"
        raise WorkerLimitError(f"the machine code is too large: disassembling {size} ran past its {done.limit} limit.")
    if done.returncode != 0:
        raise MachineError(f"nvdisasm could not disassemble the cubin: {done.output[-300:].strip()}")
    return _shorten_places(done.output)


def split_kernels(sass: str) -> Mapping[str, str]:
    """Split the SASS text by kernel: mangled name -> its part."""
    return dict(_split_sections(sass))


def count_instructions(sass: str) -> Mapping[str, int]:
    """Count instructions by kind, most frequent first, without padding NOPs."""
    sass = _CONSTANT_MOVE.sub("MOV", sass)
    counts = Counter(categorise(opcode) for opcode in _INSTRUCTION.findall(sass) if not opcode.startswith("NOP"))
    return dict(counts.most_common())


def categorise(opcode: str) -> str:
    """Return the kind of an instruction: "LDG.E.128.CONSTANT" -> "global load 128-bit"."""
    name = opcode.split(".")[0]
    if name in _SIZED:
        width = _WIDTH.search(opcode)
        return f"{_SIZED[name]} {width[1].lstrip('US') if width else 32}-bit"
    if opcode.startswith(("IMAD.MOV", "UIMAD.MOV")):
        return "move/select"
    if name in _EXACT:
        return _EXACT[name]
    return next((kind for prefix, kind in _PREFIXES if prefix.match(name)), "other")


def _split_sections(sass: str) -> Iterator[tuple[str, str]]:
    starts = list(_SECTION.finditer(sass))
    for match, after in zip(starts, [*starts[1:], None], strict=True):
        yield match[1].strip('"'), sass[match.start() : after.start() if after else len(sass)]


def _shorten_places(sass: str) -> str:
    for folder in sorted(toolchain.find_include_dirs(), key=lambda f: -len(str(f))):
        sass = sass.replace(f'"{folder}/', '"')
    sass = re.sub(r'"/[^"\n]*/(candidate\.cu)"', r'"\1"', sass)
    return _PLACES.sub(_format_place, sass)


def _format_place(chain: re.Match[str]) -> str:
    """Write one line for a chain of inlined places: the innermost place and the candidate's innermost line."""
    places = _PLACE.findall(chain[0])
    file, line = places[0]
    mine = next((line for name, line in places if name == '"candidate.cu"'), None)
    inlined = f' inlined at "candidate.cu", line {mine}' if mine and file != '"candidate.cu"' else ""
    return f"\t//## File {file}, line {line}{inlined}\n"
