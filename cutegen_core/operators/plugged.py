"""Register a kernel with torch as an operator, so that autograd, `torch.compile` and profilers know it by name."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from cutegen_core.kernel.expressions import Number
from cutegen_core.operators.runner import KernelRunner
from cutegen_core.operators.source import Source

Results = torch.Tensor | tuple[torch.Tensor, ...]
_count = itertools.count()
"""torch keeps an operator's name for the life of the process."""


@dataclass(frozen=True)
class Plugged:
    """A kernel as an operator.

    Attributes:
        operator: takes the problem's tensors in order, and its numbers by name.
    """

    runner: KernelRunner
    operator: Callable[..., Any]

    @property
    def note(self) -> str:
        """Say in a line how calls run on this machine."""
        return self.runner.note

    def __call__(self, *tensors: torch.Tensor, **numbers: Number) -> Results:
        results: Results = self.operator(*tensors, **numbers)
        return results


def plug(source: Source) -> Plugged:
    """Make a kernel an operator without a gradient.

    Raises:
        UsageError: the kernel cannot be launched from torch, or its shapes follow no rule.
    """
    runner = KernelRunner(source)
    return Plugged(runner, define(runner, f"{source.problem.name}_{source.candidate[:10]}", runner))


def define(runner: KernelRunner, name: str, run: Callable[..., Sequence[torch.Tensor]]) -> CustomOpDef:
    """Register `run`, which takes and gives what the runner's kernel does, as "cutegen::NAME_NUMBER"."""
    shapes, single = runner.shapes, len(runner.shapes.outputs) == 1
    kinds = {n: "float" if isinstance(value, float) else "int" for n, value in shapes.numbers.items()}

    def real(*tensors: torch.Tensor, **numbers: Number) -> Results:
        results = run(*tensors, **numbers)
        return results[0] if single else tuple(results)

    def fake(*tensors: torch.Tensor, **numbers: Number) -> Results:
        """Give tensors of the right shapes and nothing in them; extents may be symbols here."""
        given = [numbers.get(n, value) for n, value in shapes.numbers.items()]
        wanted = shapes.output_shapes([tensor.shape for tensor in tensors], given)
        dtypes = [getattr(torch, spec.dtype) for spec in shapes.outputs]
        results = [tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in zip(wanted, dtypes, strict=True)]
        return results[0] if single else tuple(results)

    taken = ", ".join(f"Tensor {spec.name}" for spec in shapes.inputs)
    default = {n: "" if n in shapes.required else f"={value}" for n, value in shapes.numbers.items()}
    named = "".join(f", {kind} {n}{default[n]}" for n, kind in kinds.items())
    given = "Tensor" if single else f"({', '.join(['Tensor'] * len(shapes.outputs))})"
    schema = f"({taken}{', *' + named if named else ''}) -> {given}"
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    operator = torch.library.custom_op(f"cutegen::{plain}_{next(_count)}", real, mutates_args=(), schema=schema)
    operator.register_fake(fake)
    return operator
