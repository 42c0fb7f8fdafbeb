"""Execute a built candidate on one workload.

1. Write a spec for the runner.
2. Run the runner in its own process group.
3. Turn its answer into a verdict.

On a GPU, threads run in no fixed order and asynchronous copies complete at any time. A plain execution uses one thread
order; asynchronous copies complete as late as possible, or at once if the order is "reverse". An instrumented execution
in which threads cooperated is repeated with the opposite setting, and the first defect found is reported.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cutegen_core.execute.emulator.installation import Installation
from cutegen_core.execute.emulator.symbolise import Symboliser
from cutegen_core.execute.port import Executed, Execution, RunStop
from cutegen_core.kernel.kernel_file import PROGRAM_NAME
from cutegen_core.machine import priority
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import SandboxLevel
from cutegen_core.records.errors import MachineError
from cutegen_core.records.launch import Argument, Launch, TensorArgument, TensorMap, TensorMapArgument
from cutegen_core.records.problem import ITEMSIZE, TensorRole, TensorSpec
from cutegen_core.records.trial import Finding, SharedAccess, Status

_MOST_BYTES = 4 << 30
_MOST_TENSORS = 2048  # as the runner has it
_PATIENCE = 10  # the limit counts processor time; on the clock a busy machine gets this many times as much
_WAITED = 1.5  # on the clock, so many times the limit: the machine was busy with something else
_GRACE_S = 5.0  # beyond the runner's own limit, for a runner that cannot end itself
_ORDERS = {"forward": 0, "reverse": 1, "random": 2}
_ROLES = {"input": 0, "output": 1, "scratch": 2}
_PTX_TYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "s64", "int32": "s32",
    "int16": "s16",
}  # fmt: skip
"""Of a tensor map's elements, as a reduction into memory takes them; others are bytes."""
_WORTH_A_LINE = 1.1  # times as many wavefronts as needed; to find a line takes up to a second
# The rewriter's typedef of a shared array, as the bounds checker prints it.
_SHARED_TYPE = re.compile(r"'emu_type_(\w+)' \(aka '([^']+)'\)")
AnswerFields = dict[str, list[str]]


class _Setting(NamedTuple):
    """The order in which threads are scheduled, and whether asynchronous copies complete at once."""

    order: str
    eager: bool

    def __str__(self) -> str:
        return f"thread order {self.order}, asynchronous copies arriving {'at once' if self.eager else 'late'}"


def execute(installed: Installation, execution: Execution) -> Executed:
    """Run a built candidate on one workload.

    Raises:
        MachineError: the runner itself failed.
        CancelledError: the run was stopped.
    """
    whole = not any(launch.once for launch in execution.plan.launches)
    return (_execute if whole else _execute_in_parts)(installed, execution)


def _execute(installed: Installation, execution: Execution) -> Executed:
    started = time.monotonic()
    unsupported = _find_unsupported(execution)
    if unsupported:
        return Executed(Status.UNSUPPORTED, 0.0, unsupported)
    first = _Setting(execution.order, eager=execution.order == "reverse")
    answer = _run_once(installed, execution, first)
    waited = time.monotonic() - started > _WAITED * execution.timeout_s
    if answer["status"] == [Status.TIMEOUT] and waited:  # what else was busy may have taken the caches, too
        answer = _run_once(installed, execution, first)
        answer["message"] = [f"{text} (run twice: the machine was busy)" for text in answer.get("message", [])]
    ran = _judge(answer, execution)
    if execution.built.checked and ran.status is Status.PASSED and answer["met"] == ["1"]:
        second = _Setting("forward" if first.order == "reverse" else "reverse", eager=not first.eager)
        ran = _merge(ran, _judge(_run_once(installed, execution, second), execution), second)
    return replace(ran, seconds=time.monotonic() - started)


def _execute_in_parts(installed: Installation, execution: Execution) -> Executed:
    """Run the launches marked once in a process that has nothing but parameters and buffers, then the others in one
    that has what these made as an input: the first cannot see an activation, and the others cannot change it."""
    once, rest = (execution.plan.part(once=each) for each in (True, False))
    with tempfile.TemporaryDirectory(prefix="cutegen-once-") as folder:
        specs = (TensorSpec(s.name, s.dtype, s.shape, TensorRole.BUFFER) for s in execution.plan.scratch if s.kept)
        kept = {spec: Path(folder) / spec.name for spec in specs}
        for spec, path in kept.items():
            path.write_bytes(bytes(spec.nbytes))
        fixed = {spec: path for spec, path in execution.inputs.items() if spec.role is not TensorRole.INPUT}
        made = _execute(installed, replace(execution, plan=once, inputs=fixed, outputs=kept))
        if made.status is not Status.PASSED:
            return replace(made, message=f"{made.message} (in the launches marked once)")
        ran = _execute(installed, replace(execution, plan=rest, inputs={**execution.inputs, **kept}))
    return replace(
        ran, seconds=made.seconds + ran.seconds, approximate=made.approximate or ran.approximate,
        parted=made.parted or ran.parted, findings=made.findings + ran.findings, shared=made.shared + ran.shared,
    )  # fmt: skip


def _run_once(installed: Installation, execution: Execution, setting: _Setting) -> AnswerFields:
    with tempfile.TemporaryDirectory(prefix="cutegen-run-") as folder:
        spec, result = Path(folder) / "spec", Path(folder) / "result"
        spec.write_text("\n".join(_spec_lines(execution, setting)) + "\n")
        longest_s = execution.timeout_s * _PATIENCE + _GRACE_S
        printed = _run_process([str(installed.runner), str(spec), str(result)], longest_s, execution.stop)
        answer = _read_answer(result)
    if execution.stop and execution.stop.is_set:
        raise CancelledError
    if not answer:
        raise MachineError(f"the emulator's runner died without an answer. Its output: {printed[-500:] or '(none)'}")
    return answer


def _merge(first: Executed, second: Executed, setting: _Setting) -> Executed:
    """Merge two executions: a defect seen only with the second setting names it; warnings of either stay."""
    if second.status is Status.PASSED:
        return first if first.findings else second
    return replace(second, message=f"{second.message} (seen with {setting})")


def _find_unsupported(execution: Execution) -> str:
    for tensor_map in execution.plan.tensor_maps:
        if tensor_map.interleave != "none":
            return f"tensor map {tensor_map.name}: the emulator has no interleaved layouts ({tensor_map.interleave})"
    sizes = [size for _, _, size, _, _, _ in _buffers(execution)]
    if len(sizes) > _MOST_TENSORS:
        return f"the plan has {len(sizes)} tensors and scratch buffers; the emulator takes {_MOST_TENSORS}"
    needed = sum(sizes)
    if needed > _MOST_BYTES:
        most = f"the emulator gives {_MOST_BYTES / (1 << 30):g} GiB"
        return f"tensors and scratch need {needed / (1 << 30):.1f} GiB; {most}"
    return ""


# -- the runner's input -----------------------------------------------------------------------------------------------


def _spec_lines(execution: Execution, setting: _Setting) -> Iterator[str]:
    assert execution.built.path is not None
    yield f"image {_escape_path(execution.built.path)}"
    yield f"checked {int(execution.built.checked)}"
    yield f"order {_ORDERS[setting.order]}"
    yield f"eager {int(setting.eager)}"
    yield f"seed {execution.seed}"
    yield f"timeout_ms {int(execution.timeout_s * 1000)}"
    yield f"workers {len(os.sched_getaffinity(0))}"
    yield f"talks {int(not execution.built.isolated_blocks)}"
    yield f"edge {execution.edge}"
    yield f"poison {execution.poison}"
    yield f"open_walls {int(sandbox.probe_level() is SandboxLevel.NONE)}"
    numbers: dict[str, int] = {}
    for role, name, size, item, zero, path in _buffers(execution):
        numbers[name] = len(numbers)
        yield f"buffer {_ROLES[role]} {name} {size} {item} {int(zero)} {path}"
    maps = {tensor_map.name: number for number, tensor_map in enumerate(execution.plan.tensor_maps)}
    for tensor_map in execution.plan.tensor_maps:
        yield _format_tensor_map(tensor_map, numbers)
    kernels = {name: number for number, name in enumerate(_kernel_order(execution))}
    for launch in execution.plan.launches:
        yield _format_launch(launch, kernels, numbers, maps)


def _buffers(execution: Execution) -> Iterator[tuple[str, str, int, int, bool, str]]:
    for role, tensors in (("input", execution.inputs), ("output", execution.outputs)):
        for tensor, path in tensors.items():
            yield role, tensor.name, tensor.nbytes, tensor.itemsize, False, _escape_path(path)
    for scratch in execution.plan.scratch:
        size = ITEMSIZE[scratch.dtype]
        for extent in scratch.shape:
            size *= extent
        yield "scratch", scratch.name, size, ITEMSIZE[scratch.dtype], scratch.zero, "-"


def _escape_path(path: Path) -> str:
    """Escape spaces, line breaks and percent signs of a path."""
    return re.sub(r"[%\s]", lambda match: f"%{ord(match[0]):02x}", str(path), flags=re.ASCII)


def _kernel_order(execution: Execution) -> list[str]:
    assert execution.built.path is not None
    return (execution.built.path.parent / "kernels").read_text().splitlines()


def _format_tensor_map(tensor_map: TensorMap, buffers: dict[str, int]) -> str:
    codes = tensor_map.codes
    element = (ITEMSIZE[tensor_map.dtype], _PTX_TYPES.get(tensor_map.dtype, "b8"))
    head = (tensor_map.name, buffers[tensor_map.tensor], tensor_map.offset_bytes, *element)
    lists = (*tensor_map.dims, *tensor_map.strides_bytes, *tensor_map.box)
    words = ("tensormap", *head, codes.swizzle, codes.oob_fill, tensor_map.rank, *lists)
    return " ".join(map(str, words))


def _format_launch(launch: Launch, kernels: dict[str, int], buffers: dict[str, int], maps: dict[str, int]) -> str:
    words = [
        kernels[launch.kernel],
        int(launch.cooperative),
        *launch.grid,
        *launch.block,
        *launch.cluster,
        launch.smem_bytes,
        len(launch.args),
    ]
    return " ".join(["launch", *map(str, words), *(_format_argument(a, buffers, maps) for a in launch.args)])


def _format_argument(argument: Argument, buffers: dict[str, int], maps: dict[str, int]) -> str:
    if isinstance(argument, TensorArgument):
        return f"p {buffers[argument.name]} {argument.dtype}"
    if isinstance(argument, TensorMapArgument):
        return f"m {maps[argument.name]}"
    return f"f {argument.value!r}" if isinstance(argument.value, float) else f"i {int(argument.value)}"


# -- the process ------------------------------------------------------------------------------------------------------


def _run_process(command: list[str], timeout_s: float, stop: RunStop | None) -> str:
    """Run the runner with an empty environment and return its output; always kills its whole group at the end."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={}, cwd="/", start_new_session=True
        )
        try:
            priority.make_way(process.pid)
            _wait_for_end(process.pid, timeout_s, stop)
        finally:
            sandbox.kill_group(process.pid)
            process.wait()
        log.seek(0)
        text = log.read(1 << 16).decode(errors="replace")
    return text if process.returncode == 0 else f"{text}\n(ended with {_describe_exit(process.returncode)})"


def _wait_for_end(pid: int, timeout_s: float, stop: RunStop | None) -> None:
    """Wait until a child ends, or is to end, or until the limit: `Popen.wait` looks only every so many milliseconds."""
    watched = os.pidfd_open(pid)
    try:
        with selectors.DefaultSelector() as selector:
            for fd in (watched, *([stop.fd] if stop else [])):
                selector.register(fd, selectors.EVENT_READ)
            selector.select(timeout_s)
    finally:
        os.close(watched)


def _describe_exit(returncode: int) -> str:
    return f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"code {returncode}"


# -- the runner's answer ----------------------------------------------------------------------------------------------


def _read_answer(path: Path) -> AnswerFields:
    answer: AnswerFields = {}
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            key, _, value = line.partition(" ")
            answer.setdefault(key, []).append(value)
    return answer


def _judge(answer: AnswerFields, execution: Execution) -> Executed:
    status = answer["status"][0]
    message = answer.get("message", [""])[0]
    if status == "MACHINE_ERROR":
        raise MachineError(f"the emulator's runner: {message}")
    warnings = (_read_finding(answer, execution, "warning-"),) if "warning-status" in answer else ()
    if status == "PASSED":
        return Executed(
            Status.PASSED, 0.0, findings=warnings, approximate=answer["approximate"] == ["1"],
            parted=answer["parted"] == ["1"], switches=int(answer["switches"][0]),
            shared=tuple(_read_shared(answer, execution)),
        )  # fmt: skip
    if status in ("UNRESOLVED", "REFUSED"):
        text = message if status == "REFUSED" else f"the kernel uses {message!r}, which is not there for device code"
        return Executed(Status.LAUNCH_ERROR, 0.0, text)
    if not answer.get("kind", [""])[0]:
        return Executed(Status(status), 0.0, message)
    finding = _read_finding(answer, execution, "")
    return Executed(Status(status), 0.0, _describe_finding(finding), (finding,))


def _read_shared(answer: AnswerFields, execution: Execution) -> Iterator[SharedAccess]:
    """Yield the wavefronts that each launch counted; without the line where few are lost, which takes long to find."""
    assert execution.built.path is not None
    for row in answer.get("banks", ()):
        launch, wavefronts, least = map(int, row.split())
        lost = wavefronts > _WORTH_A_LINE * least
        frames = (line.split() for line in answer.get("banks-frame", ()) if lost)
        place = tuple(int(frame) for number, frame in frames if int(number) == launch)
        kernel = execution.plan.launches[launch].kernel
        yield SharedAccess(kernel, wavefronts, least, _line_of(execution.built.path, place) if place else 0)


@lru_cache(maxsize=256)
def _line_of(image: Path, frames: tuple[int, ...]) -> int:
    return Symboliser(image).find_line(frames)


def _describe_finding(finding: Finding) -> str:
    where = f"line {finding.line}: " if finding.line else ""
    who = f" [block {finding.block}, thread {finding.thread}]" if finding.thread else ""
    return f"{where}{finding.message}{who}"


def _read_finding(answer: AnswerFields, execution: Execution, prefix: str) -> Finding:
    def first(key: str) -> str:
        return answer.get(prefix + key, [""])[0]

    launch = int(first("launch") or -1)
    line = int(first("line") or 0) if first("file") == PROGRAM_NAME else 0
    if not line:
        assert execution.built.path is not None
        line = Symboliser(execution.built.path).find_line(int(frame) for frame in answer.get(prefix + "frame", []))
    shared = _SHARED_TYPE.search(first("message"))
    return Finding(
        kind=first("kind"),
        message=_SHARED_TYPE.sub(r"'\2'", first("message")),
        variable=shared[1] if shared else first("variable"),
        line=line,
        kernel=execution.plan.launches[launch].kernel if launch >= 0 and execution.plan.launches else "",
        block=_read_index(first("block")),
        thread=_read_index(first("thread")),
    )


def _read_index(words: str) -> tuple[int, int, int] | None:
    if not words:
        return None
    x, y, z = map(int, words.split())
    return x, y, z
