"""PyTorch's own catalogue of operations, with the arguments by which PyTorch tests them, as references."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from cutegen_core.records.problem import Problem, Workload, WorkloadRole

SAMPLES = 6
"""Calls of an operation."""
MOST_ELEMENTS = 200_000


class Call(NamedTuple):
    """A call of an operation as text, and the code that draws its tensors."""

    text: str
    tensors: tuple[str, ...]

    @property
    def problem(self) -> Problem:
        names = ", ".join(f"t{i}" for i in range(len(self.tensors)))
        source = "\n".join([
            "import torch, torch.nn as nn",
            "class Model(nn.Module):",
            f"    def forward(self, {names}):",
            f"        return {self.text}",
            "def get_inputs():",
            f"    return [{', '.join(self.tensors)}]",
            "def get_init_inputs():",
            "    return []",
        ])  # fmt: skip
        return Problem("case", "case", source, "test", (Workload("own", WorkloadRole.BENCHMARK),))


def catalogue(one_in: int = 1) -> Iterator[Call]:
    """Yield calls of one in so many operations of PyTorch, of those that have dense tensors of usual types."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    for operation in op_db[::one_in]:
        dtype = next((d for d in (torch.float32, torch.int64) if d in operation.dtypes), None)
        if dtype is not None:
            for sample in islice(operation.sample_inputs("cpu", dtype), SAMPLES):
                call = _Writer().write(operation.name, sample)
                if call:
                    yield call


class _Writer:
    """Writes one sample as code."""

    def __init__(self) -> None:
        self._tensors: list[Any] = []

    def write(self, name: str, sample: Any) -> Call | None:
        """Return the call; none where it cannot be written, or has tensors that no problem has."""
        import torch

        try:
            arguments = [self._text(one) for one in (sample.input, *sample.args)]
            named = [f"{key}={self._text(value)}" for key, value in sample.kwargs.items()]
        except TypeError:
            return None
        if not self._tensors or not all(_is_usual(tensor) for tensor in self._tensors):
            return None
        function: Any = torch
        for part in name.split("."):
            function = getattr(function, part, None)
        first, *others = arguments
        text = f"torch.{name}({', '.join((*arguments, *named))})"
        if function is None:
            text = f"{first}.{name}({', '.join((*others, *named))})"
        return Call(text, tuple(map(_draw, self._tensors)))

    def _text(self, value: Any) -> str:
        """Raise TypeError for what cannot be written."""
        import torch

        if isinstance(value, torch.Tensor):
            self._tensors.append(value)
            return f"t{len(self._tensors) - 1}"
        if isinstance(value, (list, tuple)):
            inside = "".join(f"{self._text(one)}, " for one in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside})"
        if isinstance(value, float):
            return f"float('{value}')"
        if value is None or isinstance(value, (bool, int, str, slice, torch.dtype)):
            return str(value) if isinstance(value, torch.dtype) else repr(value)
        raise TypeError(type(value).__name__)


def _is_usual(tensor: Any) -> bool:
    import torch

    return bool(
        tensor.layout == torch.strided
        and not tensor.is_complex()
        and 0 < tensor.numel() <= MOST_ELEMENTS
        and tensor.dim() > 0
    )


def _draw(tensor: Any) -> str:
    """Return code that draws numbers of the range of these."""
    import torch

    shape = list(tensor.shape)
    if tensor.dtype == torch.bool:
        return f"torch.rand({shape}) > 0.5"
    if tensor.is_floating_point():
        draw = "rand" if bool((tensor >= 0).all()) else "randn"
        return f"torch.{draw}({shape}).to({tensor.dtype})"
    return f"torch.randint({int(tensor.min())}, {int(tensor.max()) + 1}, {shape}, dtype={tensor.dtype})"
