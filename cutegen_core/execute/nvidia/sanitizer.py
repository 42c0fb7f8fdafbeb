"""Run compute-sanitizer's four tools on one run of a candidate; report findings with lines of its file.

1. memcheck, racecheck, initcheck and synccheck run the same spec (`cuda.standalone`, exact allocations) in parallel,
   each in its own process. Reports go to files, so a kernel's output cannot be mistaken for a report.
2. Each combination of kind, kernel and line becomes one finding, with the first thread and the number of repeats.
3. The disassembly maps a line in a header to the candidate's line at which it was inlined.

Warnings of racecheck (values that do not depend on the order) are left out, because they do not make a kernel wrong.
https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cutegen_core.execute.compiler.machine_code import OWN_FILE
from cutegen_core.execute.nvidia import nvidia_tools
from cutegen_core.execute.nvidia.sass_lines import SassLines
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Finding

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

_PRINTED = 100
_GRACE_S = 10.0
_PREFIX = "========= "
_NO_RECORD = re.compile(
    r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY|Target application|This version|Warning:|Info:|Program hit "
)
_PLACE = re.compile(
    r"\b(?P<role>at |Device Frame:\s*)(?P<kernel>\S+?)[+:]0x(?P<offset>[0-9a-f]+)"
    r"(?: in (?P<file>[^\n]*?):(?P<line>\d+))?\s*(?:$|\[)",
    re.MULTILINE,
)
_WHO = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_DISTANCE = re.compile(r"is ([\d,]+) bytes (before|after) the nearest allocation at 0x[0-9a-f]+ of size ([\d,]+) bytes")
_ACCESS = re.compile(r"(?:Invalid|Uninitialized) __(\w+)__ (?:memory )?(\w+) of size (\d+)")
_HAZARDS = re.compile(r"\[([\d,]+) hazards?\]")
_KINDS = (
    (re.compile(r"misaligned", re.I), "misaligned"),
    (re.compile(r"Uninitialized"), "uninitialised"),
    (re.compile(r"Race reported|hazard detected"), "race"),
    (re.compile(r"Barrier error|Mbarrier|Cluster barrier"), "divergent-barrier"),
    (re.compile(r"Invalid __|out of bounds|Out-of-range", re.I), "out-of-bounds"),
)


class _AccessPlace(NamedTuple):
    """The place of an access: the kernel's name in the cubin and the line of the candidate, 0 if unknown."""

    mangled: str
    line: int


LineOf = Callable[[str, int], int]
"""Function: mangled kernel name and byte offset of an instruction -> line of the candidate, 0 if unknown."""


@dataclass(frozen=True)
class Report:
    """The report of one tool.

    Attributes:
        text: its log.
        ended: the standalone runner's answer, {} if there was none.
        limit: whether the tool was stopped at its time limit.
    """

    tool: str
    text: str
    ended: Mapping[str, Any]
    limit: bool = False


def check(spec: Path, tools: Sequence[str] = TOOLS, timeout_s: float = 60.0) -> tuple[Finding, ...]:
    """Run the tools on the spec; return their findings, none if all is well.

    Args:
        spec: written by `cuda.standalone.write_spec`, outputs unpoisoned (for initcheck), on a small workload: the
            tools make a kernel ten to a hundred times slower.
        timeout_s: limit of each tool.

    Raises:
        MachineError: compute-sanitizer is missing or failed itself.
    """
    program = nvidia_tools.require(nvidia_tools.SANITIZER)
    with tempfile.TemporaryDirectory(prefix="cutegen-sanitizer-") as folder, ThreadPoolExecutor(len(tools)) as pool:
        reports = list(pool.map(lambda tool: _run_tool(program, tool, spec, Path(folder), timeout_s), tools))
    description = json.loads(spec.read_text())
    line_of = SassLines(Path(description["cubin"])).find_line
    found = [finding for report in reports for finding in read_findings(report, description, line_of)]
    return tuple(found or [end for report in reports for end in _find_bad_ends(report, timeout_s)][:1])


def _run_tool(program: Path, tool: str, spec: Path, folder: Path, timeout_s: float) -> Report:
    log = folder / f"{tool}.log"
    command = [
        str(program), "--tool", tool, "--report-api-errors", "no", "--show-backtrace", "device", "--demangle", "no",
        "--print-limit", str(_PRINTED), "--log-file", str(log), *nvidia_tools.standalone_command(spec),
    ]  # fmt: skip
    ran = nvidia_tools.run(command, timeout_s=timeout_s + _GRACE_S)
    text = log.read_text(errors="replace") if log.exists() else ""
    word = _read_answer(ran.output)
    if not ran.limit and word.get("ended") != "unfinished" and "SUMMARY" not in text:
        raise MachineError(f"compute-sanitizer's {tool} failed: {(text + ran.output).strip()[-800:] or '(no output)'}")
    return Report(tool, text, word, ran.limit)


def _read_answer(output: str) -> Mapping[str, Any]:
    """Return the runner's answer: the last line that is a JSON object with "ended"."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"ended"'):
            word: Mapping[str, Any] = json.loads(line)
            return word
    return {}


def _find_bad_ends(report: Report, timeout_s: float) -> Iterator[Finding]:
    """Yield a finding for a run that failed although no tool reported an error."""
    ended = report.ended.get("ended", "")
    if report.limit or ended == "unfinished":
        yield Finding("timeout", f"under {report.tool} the kernel did not end within {timeout_s:g} s")
    elif ended == "fault":
        yield Finding("fault", f"under {report.tool}: {report.ended['name']}: {report.ended['text']}")
    elif ended == "refused":
        yield Finding("launch", str(report.ended["message"]))


# -- reading a report --------------------------------------------------------------------------------------------------


def read_findings(report: Report, spec: Mapping[str, Any], line_of: LineOf) -> tuple[Finding, ...]:
    """Read one tool's log; records of the same kind, kernel and line become one finding.

    Args:
        line_of: finds the line at which a header's code was inlined.
    """
    merged: dict[tuple[str, str, int], tuple[Finding, int]] = {}
    for title, body in _split_records(report.text):
        finding, count = _read_finding(title, body, spec, line_of)
        key = (finding.kind, finding.kernel, finding.line)
        first, before = merged.get(key, (finding, 0))
        merged[key] = (first, before + count)
    return tuple(replace(f, message=f"{f.message} ({_count_text(f, n)})") if n > 1 else f for f, n in merged.values())


def _split_records(text: str) -> Iterator[tuple[str, str]]:
    """Yield first line and indented lines of each record, without the tool's own remarks."""
    title, body = "", list[str]()
    for line in (*text.splitlines(), _PREFIX + "end"):
        words = line.removeprefix(_PREFIX)
        if not line.startswith(_PREFIX.strip()):
            continue
        if words.startswith((" ", "=")) or not words.strip():
            body.append(words.strip())
            continue
        if title and not _NO_RECORD.match(title):
            yield title, "\n".join(body)
        title, body = words, []


def _count_text(finding: Finding, count: int) -> str:
    at_least = "at least " if count >= _PRINTED and finding.kind != "race" else ""
    return f"{count} hazards" if finding.kind == "race" else f"{at_least}{count} times"


def _read_finding(title: str, body: str, spec: Mapping[str, Any], line_of: LineOf) -> tuple[Finding, int]:
    text = f"{title}\n{body}"
    kind = next((name for pattern, name in _KINDS if pattern.search(text)), "fault")
    found = list(_PLACE.finditer(text))
    accesses = [_find_place(each, line_of) for each in found if each["role"] == "at "]
    callers = [_find_place(each, line_of) for each in found if each["role"] != "at "]
    chain = [*(accesses[-1:] if kind == "race" else accesses[:1]), *callers]
    who, hazards = _WHO.search(text), _HAZARDS.search(text)
    numbers = [int(n) for n in who.groups()] if who else []
    finding = Finding(
        kind=kind,
        message=_describe(kind, title, text, accesses),
        variable=_find_variable(text, spec),
        line=next((place.line for place in chain if place.line), 0),
        kernel=_find_kernel(chain, spec),
        block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
        thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
    )
    return finding, int(hazards[1].replace(",", "")) if hazards else 1


def _find_place(found: re.Match[str], line_of: LineOf) -> _AccessPlace:
    if found["file"] == OWN_FILE:
        return _AccessPlace(found["kernel"], int(found["line"]))
    return _AccessPlace(found["kernel"], line_of(found["kernel"], int(found["offset"], 16)))


def _describe(kind: str, title: str, text: str, places: Sequence[_AccessPlace]) -> str:
    access, distance = _ACCESS.search(text), _DISTANCE.search(text)
    if kind == "race":
        lines = " and ".join(f"line {place.line}" for place in places if place.line)
        both = " and ".join(word.lower() for word in re.findall(r"\b(Write|Read) access", text))
        return f"shared memory: {both} without a barrier between them" + (f", {lines}" if lines else "")
    if kind == "divergent-barrier":
        return (
            f"{title.removeprefix('Barrier error detected. ').rstrip('.').lower()}: not all threads reach this barrier"
        )
    if access is None:
        return title.rstrip(".")
    memory, verb, size = access[1], access[2], access[3]
    what = f"{verb} of {_bytes_text(size)} of {memory} memory"
    if kind == "misaligned":
        return f"{what} at an address that is no multiple of its size"
    if kind == "uninitialised":
        return f"{what} that nothing was written to"
    if distance:
        return f"{what}, {_bytes_text(distance[1])} {distance[2]} a buffer of {distance[3]} bytes"
    return f"{what}, outside of every buffer" if memory == "global" else f"{what}, past its end"


def _bytes_text(count: str) -> str:
    return f"{count} byte" if count == "1" else f"{count} bytes"


def _find_variable(text: str, spec: Mapping[str, Any]) -> str:
    """Return the tensor with the size of the nearest allocation, "" if several have it."""
    distance = _DISTANCE.search(text)
    if not distance:
        return ""
    sizes = {name: Path(path).stat().st_size for name, path in spec["inputs"].items() if Path(path).exists()}
    sizes |= spec["outputs"] | {s["name"]: s["nbytes"] for s in spec["program"].get("scratch", ()) if "nbytes" in s}
    names = [name for name, size in sizes.items() if size == int(distance[3].replace(",", ""))]
    return names[0] if len(names) == 1 else ""


def _find_kernel(chain: Sequence[_AccessPlace], spec: Mapping[str, Any]) -> str:
    """Return the plan's name of the kernel; the access may be in a function that the kernel calls."""
    names = {step["function"]: step["kernel"] for step in spec["program"]["steps"]}
    known = [names[place.mangled] for place in chain if place.mangled in names] or list(dict.fromkeys(names.values()))
    return str(known[0]) if len(known) == 1 or any(place.mangled in names for place in chain) else ""
