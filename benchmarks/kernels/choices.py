"""Choices of the playbook's kernels for cases of a benchmark: written, compiled for this device, kept in files.

A case has a problem of one workload; `KernelMaker` itself also reads its `sweep`, the parameters to try by the level's
name.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cutegen_core.execute.compiler.compilation import Compiler, CompileResult
from cutegen_core.execute.cuda.program import Function, Program, make_program
from cutegen_core.judge.reference import Reference, start_worker
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.kernel_file import KernelFile
from cutegen_core.machine.device import Device
from cutegen_core.propose import playbook
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Problem, Signature, Workload, WorkloadRole
from cutegen_core.records.trial import Status

Row = dict[str, Any]
Params = Mapping[str, int]
Sweep = Mapping[str, Sequence[Params]]


class TimedCase(Protocol):
    """What kernels are compiled for: a problem of one workload."""

    @property
    def name(self) -> str: ...

    @property
    def problem(self) -> Problem: ...


@dataclass(frozen=True)
class Made:
    """A compiled choice of a case."""

    case: str
    level: str
    params: Params
    cubin: bytes
    program: Program
    facts: Row

    @property
    def name(self) -> str:
        return f"{self.level} {' '.join(f'{k}={v}' for k, v in self.params.items())}".strip()

    def to_json(self) -> Row:
        plain = {"case": self.case, "level": self.level, "params": dict(self.params), "facts": self.facts}
        return plain | {"cubin": base64.b64encode(self.cubin).decode(), "program": self.program.to_json()}

    @classmethod
    def from_json(cls, plain: Row) -> Made:
        program, cubin = Program.from_json(plain.pop("program")), base64.b64decode(plain.pop("cubin"))
        return cls(program=program, cubin=cubin, **plain)


def problem_of(name: str, header: str, sizes: Mapping[str, int], draw: Mapping[str, str], forward: str) -> Problem:
    """Return the problem of a reference in one expression.

    Args:
        draw: name of an input -> the code, of the sizes, that draws it.
        forward: code of the inputs.
    """
    source = "\n".join([
        header,
        *(f"{size} = {value}" for size, value in sizes.items()),
        "class Model(nn.Module):",
        f"    def forward(self, {', '.join(draw)}):",
        f"        return {forward}",
        "def get_inputs():",
        f"    return [{', '.join(draw.values())}]",
        "def get_init_inputs():",
        "    return []",
    ])  # fmt: skip
    return Problem(name, name, source, "benchmark", (Workload("own", WorkloadRole.BENCHMARK),))


class KernelMaker:
    """Writes and compiles the kernels of the cases; references share one torch worker, threads have a compiler each."""

    def __init__(self, device: Device, folder: Path, compilers: int) -> None:
        self.device, self.folder = device, folder
        self._worker = start_worker(folder)
        self._compilers = [Compiler(device.arch) for _ in range(compilers)]
        self._own, self._free = threading.local(), list(self._compilers)

    def make(self, cases: Sequence[TimedCase]) -> Iterator[Made | Row]:
        """Yield every choice compiled, or a row that says why not; a case after the other."""
        jobs = [job for case in cases for job in self._jobs(case)]
        with ThreadPoolExecutor(len(self._compilers)) as pool:
            yield from pool.map(lambda job: self._compile(*job), jobs)

    def _jobs(
        self, case: Any  # noqa: ANN401 - what another maker reads of its cases differs
    ) -> Iterator[tuple[TimedCase, str, KernelFile, Params, LaunchPlan, Signature]]:  # fmt: skip
        reference = Reference(case.problem, self.folder, worker=self._worker)
        own = case.problem.workloads[0]
        graph, signature = reference.graph(own), reference.signature(own)
        for variant in playbook.propose(graph, signature, case.name, playbook.Target.of(self.device, case.problem)):
            file = kernel_file.parse(variant.source)
            known = {p.name for p in file.params}
            for params in case.sweep.get(variant.name, ()):
                if set(params) <= known:
                    plan = file.plan(signature, self.device, {**file.defaults(), **params})
                    yield case, variant.name, only(file, plan), params, plan, signature

    def _compile(
        self, case: TimedCase, level: str, file: KernelFile, params: Params, plan: LaunchPlan, _: Signature
    ) -> Made | Row:
        if not hasattr(self._own, "compiler"):
            self._own.compiler = self._free.pop()
        made: CompileResult = self._own.compiler.compile(file, {**file.defaults(), **params})
        row: Row = {"case": case.name, "level": level, "params": dict(params), "compile_s": round(made.seconds, 1)}
        if made.status is not Status.PASSED or made.lowered is None:
            return row | {"failure": made.message or made.log[:300]}
        functions = {k.kernel: Function(made.lowered[k.kernel], k.signature) for k in made.kernels}
        row |= {
            "registers": max(k.registers for k in made.kernels),
            "spilled": sum(k.spill_store_bytes for k in made.kernels),
            "smem": max(launch.smem_bytes for launch in plan.launches),
            "ptxas_c75": sum("(C75" in d.message for d in made.diagnostics),
        }  # fmt: skip
        return Made(case.name, level, params, made.cubin, make_program(plan, functions), row)

    def close(self) -> None:
        self._worker.close()
        for compiler in self._compilers:
            compiler.close()


def only(file: KernelFile, plan: LaunchPlan) -> KernelFile:
    """Return the file with the launches of this plan and their tensor maps only, so that no other is compiled."""
    head, *launches = file.text.split("[[launch]]\n")
    *most, last = launches
    last, tail = last.split("[numerics]", 1)
    used = {launch.line for launch in plan.launches}
    kept = [text for text, spec in zip((*most, last), file.launches, strict=True) if spec.line in used]
    before, *maps = head.split("[[tensormap]]\n")
    passed = [text for text in maps if any(text.split("\n", 1)[0].removeprefix("name = ") in each for each in kept)]
    head = "[[tensormap]]\n".join([before, *passed])
    return kernel_file.parse("[[launch]]\n".join([head, *kept]) + "[numerics]" + tail)


def compile_to(
    kept: Path, maker: KernelMaker, cases: Sequence[TimedCase], show: Callable[[Row], None], *, show_all: bool
) -> tuple[list[Made], list[Row]]:
    """Compile what the cases take to files in `kept`; return it, and the rows of what failed, which are shown."""
    made: list[Made] = []
    failed: list[Row] = []
    try:
        for one in maker.make(cases):
            if isinstance(one, Made):
                (kept / f"{len(made):03}~{one.case}.json").write_text(json.dumps(one.to_json()))
                made.append(one)
            else:
                failed.append(one)
            if show_all or not isinstance(one, Made):
                show(one.facts if isinstance(one, Made) else one)
    finally:
        maker.close()
    return made, failed


def read_choices(kept: Path, case: str) -> list[Made]:
    """Return what `compile_to` kept for a case, in order."""
    return [Made.from_json(json.loads(path.read_text())) for path in sorted(kept.glob(f"*~{case}.json"))]


def name_of(row: Row) -> str:
    """Return what the kernel of a row is called, also of one that failed to compile."""
    return row.get("kernel") or f"{row['level']} {' '.join(f'{k}={v}' for k, v in row['params'].items())}"
