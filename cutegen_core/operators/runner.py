"""Run one call of a kernel: check the tensors, plan, and launch where the tensors are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NoReturn

import torch

from cutegen_core.kernel.expressions import Number
from cutegen_core.machine.device import KNOWN
from cutegen_core.operators.emulated import Emulated
from cutegen_core.operators.launching import GpuNumbers, Launcher, device_numbers
from cutegen_core.operators.plan_closure import CallFacts, PlanClosure
from cutegen_core.operators.shapes import Shape, Shapes, compile_fit, derive
from cutegen_core.operators.source import Source
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import TensorSpec

_ALIGNMENT = 16
"""Bytes to which the judge aligns every tensor; kernels may load as wide."""


class KernelRunner:
    """A kernel that can be called with torch tensors, on a GPU or on the CPU emulator."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shapes: Shapes = derive(source.signatures)
        self._closures: dict[int, PlanClosure] = {}
        self._launchers: dict[int, Launcher] = {}
        self._emulated: Emulated | None = None
        self._default_numbers = list(self.shapes.numbers.values())
        self._fit = compile_fit(self.shapes)
        self._wants = tuple((getattr(torch, spec.dtype), len(spec.shape)) for spec in self.shapes.inputs)
        self._results = [(getattr(torch, spec.dtype), spec.itemsize) for spec in self.shapes.outputs]

    def __call__(self, *tensors: torch.Tensor, **numbers: Number) -> list[torch.Tensor]:
        """Return the results in order.

        Raises:
            UsageError: tensors or numbers are not what the kernel was tested for, or the emulator would take too long.
        """
        given = self._numbers(numbers)
        device = tensors[0].device if tensors else None
        fits = len(tensors) == len(self._wants)
        for tensor, (dtype, rank) in zip(tensors, self._wants, strict=False):
            fits = fits and tensor.dtype is dtype and tensor.dim() == rank and tensor.device == device
        shapes = [tuple(tensor.shape) for tensor in tensors]
        wanted = self._fit(shapes, given) if fits else None
        if wanted is None or device is None:
            self._refuse(tensors, given)
        if not any([prod(shape) for shape in wanted]):
            return [tensors[0].new_empty(s, dtype=d) for s, (d, _) in zip(wanted, self._results, strict=True)]
        inputs = [_readable(tensor) for tensor in tensors]
        facts = [CallFacts(shape, tensor.itemsize) for shape, tensor in zip(shapes, inputs, strict=True)]
        facts += [CallFacts(shape, size) for shape, (_, size) in zip(wanted, self._results, strict=True)]
        if device.type != "cuda":
            return self._emulate(self.closure(-1), facts, given, inputs)
        if device.index == torch.cuda.current_device():
            return self._launch(device, inputs, facts, given, wanted)
        with torch.cuda.device(device.index):
            return self._launch(device, inputs, facts, given, wanted)

    def _refuse(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Number]) -> NoReturn:
        """Say why the kernel cannot take these tensors."""
        label, specs = self.source.label, self.shapes.inputs
        if len(tensors) != len(specs):
            names = ", ".join(spec.name for spec in specs)
            raise UsageError(f"{label} takes {len(specs)} tensors ({names}); {len(tensors)} were given.")
        for spec, (dtype, rank), tensor in zip(specs, self._wants, tensors, strict=True):
            if tensor.dtype is not dtype:
                raise UsageError(f"{label}: {spec.name} is {tensor.dtype}, but the kernel was made for {dtype}.")
            if tensor.dim() != rank:
                raise UsageError(f"{label}: {spec.name} has {tensor.dim()} dimensions, the kernel's {rank}.")
            if tensor.device != tensors[0].device:
                raise UsageError(
                    f"{label}: {spec.name} is on {tensor.device}, {specs[0].name} on {tensors[0].device}; all must be "
                    "on one device."
                )
        self.shapes.check([tuple(tensor.shape) for tensor in tensors], numbers)
        raise AssertionError("the compiled rules refuse what the rules allow")

    def closure(self, ordinal: int) -> PlanClosure:
        """Return the plan for a GPU, or for the device that the kernel was compiled for (-1)."""
        if ordinal not in self._closures:
            signature = self.source.signatures[-1]
            self._closures[ordinal] = PlanClosure(self.source.kernel, signature, self._device(ordinal))
        return self._closures[ordinal]

    @property
    def note(self) -> str:
        """Say in a line how calls run on this machine."""
        if torch.cuda.is_available():
            return f"{self.source.label} runs on the GPU from its stored cubin ({self.source.arch})"
        return f"{self.source.label} runs on the CPU emulator, which is right but slow: its time says nothing"

    def _device(self, ordinal: int) -> GpuNumbers:
        if ordinal < 0:
            known = KNOWN[self.source.arch]
            return GpuNumbers(known.arch, known.sm_count, known.smem_max, known.warp_size)
        return device_numbers(self.source.arch, ordinal)

    def _numbers(self, given: dict[str, Number]) -> list[Number]:
        """Return a value for each number of the problem, in order."""
        if not given and not self.shapes.required:
            return self._default_numbers
        unknown = set(given) - set(self.shapes.numbers)
        if unknown:
            raise UsageError(f"{self.source.label} has no number {', '.join(sorted(unknown))}.")
        missing = [name for name in self.shapes.required if name not in given]
        if missing:
            raise UsageError(f"{self.source.label} needs {', '.join(missing)}: it is a size that no tensor shows.")
        return [given.get(name, value) for name, value in self.shapes.numbers.items()]

    def _launch(
        self, device: torch.device, inputs: list[torch.Tensor], facts: list[CallFacts], numbers: list[Number],
        wanted: list[Shape],
    ) -> list[torch.Tensor]:  # fmt: skip
        """Enqueue a call on torch's current device, which is the tensors'."""
        ordinal = device.index
        launcher = self._launchers.get(ordinal)
        if launcher is None:
            launcher = self._launchers[ordinal] = Launcher(self.source, ordinal)
        closure = self.closure(ordinal)
        planned = closure(facts, numbers)
        results = zip(wanted, self._results, strict=True)
        outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, (dtype, _) in results]
        launcher.run(closure, planned, inputs, outputs)
        return outputs

    def _emulate(
        self, closure: PlanClosure, facts: list[CallFacts], numbers: list[Number], inputs: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        if self._emulated is None:
            self._emulated = Emulated(self.source)
        count = len(self.shapes.inputs)
        specs = [
            TensorSpec(spec.name, spec.dtype, fact.shape, spec.role)
            for spec, fact in zip((*self.shapes.inputs, *self.shapes.outputs), facts, strict=True)
        ]
        planned = closure(facts, numbers)
        return self._emulated.run(closure, planned, (specs[:count], specs[count:]), inputs)


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as the judge passes it, contiguous and aligned: the tensor itself, or a copy."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % _ALIGNMENT else tensor
