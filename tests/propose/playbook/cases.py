"""References in KernelBench's shape with two small workloads, and the run of every kernel that the playbook has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cutegen_core.execute.port import Execution
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import choose_device
from cutegen_core.propose.playbook import Variant, propose
from cutegen_core.records.problem import Problem, Workload, WorkloadRole
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import not_asked
from tests.shared_tools import SharedTools

DEVICE = choose_device("sm_90a")


def problem(
    forward: str, sizes: Mapping[str, int], awkward: Mapping[str, int], init: str = "pass", **inputs: str
) -> Problem:
    """A reference in KernelBench's shape with two small workloads; inputs map a name to the code that draws it."""
    source = "\n".join([
        "import torch, torch.nn as nn, torch.nn.functional as F",
        *(f"{name} = {value}" for name, value in sizes.items()),
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        f"        {init}",
        f"    def forward(self, {', '.join(inputs)}):",
        f"        return {forward}",
        "def get_inputs():",
        f"    return [{', '.join(inputs.values())}]",
        "def get_init_inputs():",
        "    return []",
    ])  # fmt: skip
    workloads = (Workload("own", WorkloadRole.BENCHMARK), Workload("awkward", WorkloadRole.EMULATOR, awkward))
    return Problem("case", "case", source, "test", workloads)


def variants_of(case: Problem, shared: SharedTools, folder: Path) -> tuple[Variant, ...]:
    """Return the playbook's kernels, which know both workloads."""
    own, awkward = case.workloads
    reference = shared.reference(case, folder)
    other = reference.graph(awkward), reference.signature(awkward)
    return propose(reference.graph(own), reference.signature(own), "case", (), [other])


def run_every_variant(case: Problem, shared: SharedTools, folder: Path) -> None:
    """Run each kernel instrumented, at both workloads, with threads in random order, and compare what it wrote."""
    reference, executor = shared.reference(case, folder), shared.executor
    for variant in variants_of(case, shared, folder):
        kernel = kernel_file.parse(variant.source)
        assert screen(kernel) == ()
        built = executor.build(kernel, {}, not_asked, checked=True)
        assert built.status is Status.PASSED, f"{variant.name}: {built.message}\n{built.log}"
        for workload in case.workloads:
            signature, inputs = reference.signature(workload), reference.write_inputs(workload, 1)
            outputs = {spec: folder / f"{spec.name}.out" for spec in signature.outputs}
            for spec, path in outputs.items():
                path.write_bytes(bytes(spec.nbytes))
            plan = kernel.plan(signature, DEVICE, workload=workload.name)
            with executor.open(built) as execute:
                ran = execute(Execution(built, plan, inputs, outputs, order="random", seed=5))
            assert ran.status is Status.PASSED, f"{variant.name}, {workload.name}: {ran.message}"
            wrong = [c for c in reference.compare(workload, 1, outputs) if c.wrong]
            assert not wrong, f"{variant.name}, {workload.name}: {wrong}"
