"""Describe the launches of a runner: a launch plan joined with the compiled kernels, as data that converts to JSON.

`make_program` joins a resolved plan with the mangled names and the kernels' parameter types. The loaded kernel tells
the width of a number; only the declared type tells whether it is an integer or floating point.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from cutegen_core.execute.port import Built
from cutegen_core.kernel.check_arguments import parse_parameters
from cutegen_core.records.launch import Argument, Dim3, Launch, LaunchPlan, ScalarArgument, TensorArgument, TensorMap
from cutegen_core.records.problem import ITEMSIZE

FUNCTIONS = "functions.json"
"""File next to a built cubin: name expression -> `Function`."""

_FLOATING = ("float", "double")


@dataclass(frozen=True)
class Function:
    """A compiled kernel.

    Attributes:
        mangled: its name in the cubin.
        signature: its demangled name, "relu(float const*, float*, int)".
    """

    mangled: str
    signature: str


@dataclass(frozen=True)
class PassedArgument:
    """One argument of a launch.

    Attributes:
        kind: "tensor" or "map" (`value` is a name), "int" or "float" (`value` is a number).
    """

    kind: str
    value: str | int | float


@dataclass(frozen=True)
class ProgramStep:
    """One kernel launch.

    Attributes:
        kernel: the plan's name expression, for messages.
        function: the name in the cubin.
        line: of the plan, 1-based.
        once: it runs when parameters change, not in each call.
    """

    kernel: str
    function: str
    grid: Dim3
    block: Dim3
    smem_bytes: int
    cluster: Dim3
    cooperative: bool
    line: int
    passed: tuple[PassedArgument, ...]
    once: bool = False

    @property
    def empty(self) -> bool:
        """Whether the grid has no blocks; the driver would refuse such a launch and a host program would skip it."""
        return 0 in self.grid


@dataclass(frozen=True)
class ScratchSpace:
    """Scratch that the runner allocates; zeroed before each run of the plan, or else poisoned.

    Attributes:
        kept: steps marked once make it, and calls find it as it was made, for each buffer set.
    """

    name: str
    nbytes: int
    zero: bool
    kept: bool = False


@dataclass(frozen=True)
class Descriptor:
    """A tensor map as numbers for cuTensorMapEncodeTiled; `codes` in the order of `records.launch.TensorMapCodes`."""

    name: str
    tensor: str
    offset_bytes: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """All launches of one workload, in order on one stream."""

    steps: tuple[ProgramStep, ...]
    scratch: tuple[ScratchSpace, ...] = ()
    maps: tuple[Descriptor, ...] = ()

    @property
    def prepares(self) -> bool:
        """Tell whether there are steps marked once."""
        return any(step.once for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values that `Program.from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Program:
        """Read what `to_json` returned, after encoding and decoding."""
        return cls(
            steps=tuple(_read_step(step) for step in plain["steps"]),
            scratch=tuple(ScratchSpace(**space) for space in plain["scratch"]),
            maps=tuple(Descriptor(**{k: _to_tuple(v) for k, v in each.items()}) for each in plain["maps"]),
        )


def make_program(plan: LaunchPlan, functions: Mapping[str, Function]) -> Program:
    """Join a plan with the compiled kernels.

    Args:
        functions: by name expression; a missing kernel is a KeyError, because the plan was checked before.
    """
    return Program(
        steps=tuple(_make_step(launch, functions[launch.kernel]) for launch in plan.launches),
        scratch=tuple(ScratchSpace(s.name, prod(s.shape) * ITEMSIZE[s.dtype], s.zero, s.kept) for s in plan.scratch),
        maps=tuple(_make_descriptor(each) for each in plan.tensor_maps),
    )


def load_program(built: Built, plan: LaunchPlan) -> Program:
    """Return the program of a candidate built by the GPU executor; `built.path` is the cubin."""
    assert built.path is not None
    functions = json.loads((built.path.parent / FUNCTIONS).read_text())
    return make_program(plan, {name: Function(**function) for name, function in functions.items()})


def _make_step(launch: Launch, function: Function) -> ProgramStep:
    types = parse_parameters(function.signature)
    floating = [types[i].base in _FLOATING if i < len(types) else False for i in range(len(launch.args))]
    return ProgramStep(
        kernel=launch.kernel,
        function=function.mangled,
        grid=launch.grid,
        block=launch.block,
        smem_bytes=launch.smem_bytes,
        cluster=launch.cluster,
        cooperative=launch.cooperative,
        line=launch.line,
        passed=tuple(_pass_argument(a, f) for a, f in zip(launch.args, floating, strict=True)),
        once=launch.once,
    )


def _pass_argument(argument: Argument, floating: bool) -> PassedArgument:
    if isinstance(argument, TensorArgument):
        return PassedArgument("tensor", argument.name)
    if isinstance(argument, ScalarArgument):
        return PassedArgument("float", float(argument.value)) if floating else PassedArgument("int", argument.value)
    return PassedArgument("map", argument.name)


def _make_descriptor(tensor_map: TensorMap) -> Descriptor:
    return Descriptor(
        tensor_map.name, tensor_map.tensor, tensor_map.offset_bytes, tensor_map.dims, tensor_map.strides_bytes,
        tensor_map.box, tensor_map.element_strides, tuple(tensor_map.codes),
    )  # fmt: skip


def _read_step(plain: Mapping[str, Any]) -> ProgramStep:
    passed = tuple(PassedArgument(**each) for each in plain["passed"])
    return ProgramStep(**{k: _to_tuple(v) for k, v in plain.items() if k != "passed"}, passed=passed)


def _to_tuple(value: Any) -> Any:  # noqa: ANN401 - JSON
    return tuple(value) if isinstance(value, list) else value
