"""Kernels for `precision.py`, compiled without a GPU: the playbook's for the built-in problems, and two with a known
knob.

python -m benchmarks.timing.prepared FOLDER

One JSON file a kernel: what it is, its program for the benchmark workload, the cubin (zlib, base64). A file that is
there is not made again.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cutegen_core.evaluate.timing.contest import Entry
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.compiler.demangle import demangle
from cutegen_core.execute.cuda.program import Function, Program, make_program
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library
from cutegen_core.propose import playbook
from cutegen_core.records.problem import Problem, Workload, WorkloadRole

ARCH = "sm_90a"
KERNELS = Path(__file__).parents[2] / "tests" / "data" / "kernels"
KNOBS = (
    #        name             file              knob     values                          rows
    ("blocks-large", "relu_blocks.cu", "EXTRA", (0, 26, 30, 32, 34), 4096),
    ("blocks-small", "relu_blocks.cu", "EXTRA", (0, 26, 30, 32, 34), 512),
    ("work-large", "relu_work.cu", "WORK", (200, 206, 207, 208, 209), 2048),
    ("work-small", "relu_work.cu", "WORK", (200, 207, 210, 212, 214), 64),
)


@dataclass(frozen=True)
class Prepared:
    """One compiled kernel of one workload.

    Attributes:
        name: "problem/variant" or "knob/value".
        sizes: of the workload, beyond the problem's own.
    """

    name: str
    problem: str
    sizes: Mapping[str, int]
    entry: Entry

    @property
    def workload(self) -> Workload:
        return Workload("benchmark", WorkloadRole.BENCHMARK, self.sizes)


def load(folder: Path) -> dict[str, Prepared]:
    """Return all kernels of a folder by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        plain = json.loads(path.read_text())
        cubin = zlib.decompress(base64.b64decode(plain.pop("cubin")))
        entry = Entry(cubin, Program.from_json(plain.pop("program")))
        found[plain["name"]] = Prepared(entry=entry, **plain)
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    compiler = Compiler(ARCH)
    with tempfile.TemporaryDirectory(prefix="cutegen-timing-") as scratch:
        for problem in library.catalogue():
            with Reference(problem, Path(scratch)) as reference:
                for name, source, params, sizes in _wanted(problem, reference):
                    path = folder / f"{name.replace('/', '-')}.json"
                    if not path.exists():
                        _prepare(path, name, source, params, sizes, reference, compiler)
    compiler.close()


def _wanted(problem: Problem, reference: Reference) -> Iterator[tuple[str, str, Mapping[str, int], Mapping[str, int]]]:
    own = Workload("benchmark", WorkloadRole.BENCHMARK)
    signature = reference.signature(own)
    for variant in playbook.propose(reference.graph(own), signature, problem.name):
        yield f"{problem.name}/{variant.name}", variant.source, {}, {}
    if problem.name == "relu":
        for name, file, knob, values, rows in KNOBS:
            for value in values:
                yield f"{name}/{value}", (KERNELS / file).read_text(), {knob: value}, {"batch_size": rows}


def _prepare(
    path: Path, name: str, source: str, params: Mapping[str, int], sizes: Mapping[str, int], reference: Reference,
    compiler: Compiler,
) -> None:  # fmt: skip
    kernel = parse(source)
    params = {**kernel.defaults(), **params}
    compiled = compiler.compile(kernel, params)
    if not compiled.cubin or compiled.lowered is None:
        print(f"{name}: {compiled.message}", flush=True)
        return
    signature = reference.signature(Workload("benchmark", WorkloadRole.BENCHMARK, sizes))
    plan = kernel.plan(signature, replace(KNOWN[ARCH]), params)
    functions = {k: Function(mangled, demangle(mangled)) for k, mangled in compiled.lowered.items()}
    cubin = base64.b64encode(zlib.compress(compiled.cubin, 9)).decode()
    plain = {"name": name, "problem": reference.problem.name, "sizes": dict(sizes), "cubin": cubin}
    path.write_text(json.dumps(plain | {"program": asdict(make_program(plan, functions))}))
    print(f"{name}: {len(compiled.cubin) >> 10} KiB in {compiled.seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
