"""Problems of a few lines, and whether the playbook's kernels for them are right on the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cutegen_core.execute.port import Built, Execution
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel import kernel_file
from cutegen_core.kernel.check_arguments import check_arguments
from cutegen_core.kernel.screening import screen
from cutegen_core.machine.device import choose_device
from cutegen_core.propose.playbook import Target, Variant, cute_features, propose
from cutegen_core.records.launch import LaunchPlan
from cutegen_core.records.problem import Problem, TensorSpec, Workload, WorkloadRole
from cutegen_core.records.trial import Status
from tests.execute.emulator.emulated import not_asked
from tests.later import Later
from tests.shared_tools import SharedTools

if TYPE_CHECKING:
    import torch
else:
    torch = Later("torch")

DEVICE = choose_device("sm_90a")


def problem(
    forward: str, sizes: Mapping[str, int], awkward: Mapping[str, int], init: str = "pass", lines: Sequence[str] = (),
    **inputs: str,
) -> Problem:  # fmt: skip
    """Return a reference in KernelBench's shape with two small workloads.

    Args:
        forward: what it returns, as code.
        lines: of its body before that.
        inputs: name -> the code that draws it.
    """
    source = "\n".join([
        "import torch, torch.nn as nn, torch.nn.functional as F",
        *(f"{name} = {value}" for name, value in sizes.items()),
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        f"        {init}",
        f"    def forward(self, {', '.join(inputs)}):",
        *(f"        {line}" for line in lines),
        f"        return {forward}",
        "def get_inputs():",
        f"    return [{', '.join(inputs.values())}]",
        "def get_init_inputs():",
        "    return []",
    ])  # fmt: skip
    workloads = (Workload("own", WorkloadRole.BENCHMARK), Workload("awkward", WorkloadRole.EMULATOR, awkward))
    return Problem("case", "case", source, "test", workloads)


def variants_of(case: Problem, shared: SharedTools, scratch: Path, target: Target | None = None) -> tuple[Variant, ...]:
    """Write the kernels from the benchmark workload, and from what another one shows of its sizes."""
    reference, (own, awkward, *_) = shared.reference(case, scratch), case.workloads
    other = reference.graph(awkward), reference.signature(awkward)
    made = propose(reference.graph(own), reference.signature(own), "case", target or Target(), others=[other])
    assert len({variant.idea for variant in made}) == len(made)
    return made


def assert_right(
    case: Problem, variants: Sequence[Variant], workloads: Sequence[Workload], shared: SharedTools, scratch: Path, *,
    compiled: bool = False, params: Mapping[str, int] | None = None,
) -> None:  # fmt: skip
    """Run the kernels instrumented on these workloads.

    Args:
        compiled: they compile for a GPU, too.
        params: other than the defaults: small tiles take less time to compile.
    """
    reference, executor = shared.reference(case, scratch), shared.executor
    for variant in variants:
        kernel = kernel_file.parse(variant.source)
        assert screen(kernel) == ()
        assert cute_features(variant.source)["Tensor"] > 0
        chosen = {**kernel.defaults(), **(params or {})}
        built = executor.build(kernel, chosen, not_asked, checked=True)
        assert built.status is Status.PASSED, f"{variant.name}: {built.message}\n{built.log}"
        for workload in workloads:
            plan = kernel.plan(reference.signature(workload), DEVICE, chosen, workload=workload.name)
            outputs = _run(built, plan, reference, workload, shared, scratch)
            where = f"{variant.name} at {workload.name}"
            assert not any(c.wrong for c in reference.compare(workload, 1, outputs)), where
        if compiled:
            made = shared.compiler().compile(kernel)
            assert made.status is Status.PASSED, f"{variant.name}: {made.log}"
            assert check_arguments(plan, made.kernels) == ()
            assert not any("(C75" in d.message for d in made.diagnostics)  # products that wait for one another
            assert all(k.spill_store_bytes <= 16 for k in made.kernels)


def assert_level_right(
    case: Problem, level: str, params: Mapping[str, int], shared: SharedTools, scratch: Path
) -> None:  # fmt: skip
    """Run one of the kernels, with these parameters, on both workloads."""
    chosen = [v for v in variants_of(case, shared, scratch) if v.name == level]
    assert len(chosen) == 1
    assert_right(case, chosen, case.workloads, shared, scratch, params=params)


def results_of(case: Problem, variant: Variant, shared: SharedTools, scratch: Path) -> list[torch.Tensor]:
    """Run a kernel on the problem's own workload; return its results."""
    reference, own = shared.reference(case, scratch), case.workloads[0]
    kernel = kernel_file.parse(variant.source)
    built = shared.executor.build(kernel, kernel.defaults(), not_asked, checked=False)
    assert built.status is Status.PASSED, f"{variant.name}: {built.message}\n{built.log}"
    plan = kernel.plan(reference.signature(own), DEVICE, kernel.defaults(), workload=own.name)
    outputs = _run(built, plan, reference, own, shared, scratch)
    return [
        torch.frombuffer(bytearray(path.read_bytes()), dtype=getattr(torch, spec.dtype)).reshape(spec.shape)
        for spec, path in outputs.items()
    ]


def _run(
    built: Built, plan: LaunchPlan, reference: Reference, workload: Workload, shared: SharedTools, scratch: Path
) -> dict[TensorSpec, Path]:
    inputs, signature = reference.write_inputs(workload, 1), reference.signature(workload)
    outputs = {spec: scratch / f"{spec.name}.out" for spec in signature.outputs}
    for spec, path in outputs.items():
        path.write_bytes(b"\xff" * spec.nbytes)
    with shared.executor.open(built) as execute:
        ran = execute(Execution(built, plan, inputs, outputs, order="random", seed=5))
    assert ran.status is Status.PASSED, f"{workload.name}: {ran.message}"
    return outputs
