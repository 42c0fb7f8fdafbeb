"""Check a problem's existing kernel: can it be read, planned for every workload, compiled, and does it pass."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.evaluate.stages.planning import PlannedKernel, plan_candidate
from cutegen_core.evaluate.stages.watch import StageFailure
from cutegen_core.execute.compiler.compilation import Compiler
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.machine.device import Device
from cutegen_core.problems import read
from cutegen_core.problems.lint.rules import LintFinding
from cutegen_core.records.candidate import Author, Candidate, content_key
from cutegen_core.records.problem import Problem, Signature
from cutegen_core.records.trial import Status

_SEED = 1


def check_existing(problem: Problem, reference: Reference, device: Device, *, run: bool) -> Iterator[LintFinding]:
    """Yield what is wrong with the existing kernel; with `run`, take it through all tests on the emulator."""
    if not problem.existing:
        return
    planned = plan_candidate(problem.existing, problem, reference, device)
    if isinstance(planned, StageFailure):
        yield LintFinding("existing-refused", f"existing kernel: {planned.message}.")
        return
    with closing(Compiler(device.arch)) as compiler:
        refused = _compile(planned, compiler)
        if refused:
            yield LintFinding("existing-refused", refused)
        elif run:
            yield _run(problem, compiler, device)


def check_alias(problem: Problem, signature: Signature) -> Iterator[LintFinding]:
    """Yield what ALIAS says of tensors that cannot replace one another."""
    for output, replaced in read.alias(problem).items():
        reason = alias_error(signature, output, replaced)
        if reason:
            yield LintFinding("wrong-alias", f"ALIAS: {reason}.")


def alias_error(signature: Signature, output: str, replaced: str) -> str:
    """Return why an output cannot replace an input, or ""."""
    outputs = {spec.name: spec for spec in signature.outputs}
    inputs = {spec.name: spec for spec in signature.inputs}
    if output not in outputs:
        return f"{output!r} is no output (outputs: {', '.join(outputs)})"
    if replaced not in inputs:
        return f"{replaced!r} is no input (inputs: {', '.join(inputs)})"
    one, other = outputs[output], inputs[replaced]
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{output} is {one.dtype} {one.shape}, {replaced} is {other.dtype} {other.shape}: it cannot replace it"
    return ""


def _compile(planned: PlannedKernel, compiler: Compiler) -> str:
    result = compiler.compile(planned.kernel, planned.params)
    return "" if result.status is Status.PASSED else f"existing kernel: {result.status}: {result.message}."


def _run(problem: Problem, compiler: Compiler, device: Device) -> LintFinding:
    """Take the kernel through the tests, with a reference of its own: the lint's may not write what they read."""
    with (
        tempfile.TemporaryDirectory(prefix="cutegen-existing-") as scratch,
        Reference(problem, Path(scratch)) as reference,
        closing(CpuExecutor()) as executor,
    ):
        evaluator = Evaluator(problem, reference, executor, compiler, device, content_key)
        trial = evaluator.evaluate(Candidate(problem.existing, Author.IMPORT), seed=_SEED, thorough=True)
    if trial.passed:
        tested = len(trial.correctness.verdicts) if trial.correctness else 0
        return LintFinding("existing-passes", f"existing kernel: PASSED {tested} runs on the emulator.")
    return LintFinding("existing-fails", f"existing kernel: {trial.status}: {trial.message}")
