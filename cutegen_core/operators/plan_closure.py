"""Turn a kernel file's launch plan into one Python function, so that a call costs microseconds.

`KernelFile.plan` walks every expression, checks every limit and builds records; a training step cannot wait for that.
The function made here has the same results. Where a launch breaks a limit it asks `KernelFile.plan` for the message.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from cutegen_core.kernel.expressions import Number
from cutegen_core.kernel.kernel_file import DeviceNumbers, KernelFile
from cutegen_core.kernel.plan_limits import MAX_BLOCK, MAX_GRID, MAX_SCRATCH_BYTES, MAX_THREADS, most_cluster
from cutegen_core.kernel.plan_records import LaunchSpec, Located
from cutegen_core.machine.python_text import parse_python_expression
from cutegen_core.records.errors import KernelFileError
from cutegen_core.records.launch import Argument, Dim3, Launch, LaunchPlan, ScalarArgument, Scratch, TensorArgument
from cutegen_core.records.problem import ITEMSIZE, Signature, TensorSpec
from cutegen_core.share.exports.translate import HELPERS_PYTHON, to_python


class CallFacts:
    """What a plan may ask of a tensor, cheaper to make than a `TensorSpec`."""

    __slots__ = ("itemsize", "numel", "shape")

    def __init__(self, shape: tuple[int, ...], itemsize: int) -> None:
        self.shape, self.itemsize, self.numel = shape, itemsize, prod(shape)

    @property
    def stride(self) -> tuple[int, ...]:
        """Return the row-major strides in elements."""
        return TensorSpec("", "bool", self.shape).stride


class LaunchNumbers(NamedTuple):
    """One launch; `numbers` are its arguments that are no tensors, in order."""

    number: int
    grid: Dim3
    block: Dim3
    smem: int
    cluster: Dim3
    numbers: tuple[Number, ...]


class Planned(NamedTuple):
    """The shapes of the scratch buffers, and the launches to make."""

    scratch: tuple[tuple[int, ...], ...]
    launches: tuple[LaunchNumbers, ...]


class PlanClosure:
    """The plan of one kernel file on one device.

    Attributes:
        pointers: of each launch of the file, the name of each argument's tensor, "" where it is a number.
    """

    def __init__(self, kernel: KernelFile, signature: Signature, device: DeviceNumbers) -> None:
        self.kernel, self._signature, self._device = kernel, signature, device
        self.tensors = tuple(t.name for t in signature.tensors)
        self._names = frozenset(self.tensors) | {s.name for s in kernel.scratch}
        self.pointers = tuple(tuple(self._tensor_of(a) for a in launch.args) for launch in kernel.launches)
        kernel.plan(signature, device)  # names and conditions of the parameters, once
        self.source = self._write()
        self._function = self._compile()

    def __call__(self, facts: Sequence[CallFacts], numbers: Sequence[Number]) -> Planned:
        """Plan for tensors in the order of the signature's, and its scalars.

        Raises:
            KernelFileError: a launch leaves a limit, or none applies.
        """
        try:
            scratch, launches = self._function(*facts, *numbers)
        except (ArithmeticError, ValueError, IndexError, TypeError):
            self._explain(facts, numbers)
            raise
        if not launches or not all(map(self._is_possible, launches)) or not all(map(_is_shape, scratch)):
            self._explain(facts, numbers)
        return Planned(scratch, launches)

    def launch_plan(self, planned: Planned) -> LaunchPlan:
        """Return the same as records, for an executor."""
        dtypes = {t.name: t.dtype for t in self._signature.tensors} | {s.name: s.dtype for s in self.kernel.scratch}
        launches = tuple(self._launch(each, dtypes) for each in planned.launches)
        specs = zip(self.kernel.scratch, planned.scratch, strict=True)
        return LaunchPlan(launches, tuple(Scratch(s.name, s.dtype, shape, s.zero) for s, shape in specs))

    def _launch(self, planned: LaunchNumbers, dtypes: Mapping[str, str]) -> Launch:
        spec, numbers = self.kernel.launches[planned.number], iter(planned.numbers)
        args: list[Argument] = []
        for located, name in zip(spec.args, self.pointers[planned.number], strict=True):
            text = located.expression.text
            args.append(TensorArgument(name, dtypes[name]) if name else ScalarArgument(next(numbers), text))
        return Launch(
            spec.kernel, planned.grid, planned.block, planned.smem, tuple(args), planned.cluster, spec.cooperative,
            spec.line,
        )  # fmt: skip

    def _explain(self, facts: Sequence[CallFacts], numbers: Sequence[Number]) -> None:
        """Raise what `KernelFile.plan` says of these tensors, if it refuses them."""
        count = len(self._signature.inputs)
        specs = [
            TensorSpec(t.name, t.dtype, f.shape, t.role) for t, f in zip(self._signature.tensors, facts, strict=True)
        ]
        scalars = dict(zip(self._signature.scalars, numbers, strict=True))
        plan = self.kernel.plan(Signature(tuple(specs[:count]), tuple(specs[count:]), scalars), self._device)
        if plan.launches:
            raise KernelFileError("the plan made for torch refuses what the kernel file's own plan allows")

    def _is_possible(self, launch: LaunchNumbers) -> bool:
        (x, y, z), (a, b, c), (i, j, k) = launch.grid, launch.block, launch.cluster
        whole = all([type(v) is int for v in (x, y, z, a, b, c, i, j, k, launch.smem)])
        grid = 0 < x <= MAX_GRID[0] and 0 < y <= MAX_GRID[1] and 0 < z <= MAX_GRID[2]
        block = 0 < a <= MAX_BLOCK[0] and 0 < b <= MAX_BLOCK[1] and 0 < c <= MAX_BLOCK[2] and a * b * c <= MAX_THREADS
        alone = i == j == k == 1
        most = 1 if alone else most_cluster(self._device.arch)
        cluster = alone or (i > 0 < j and k > 0 and i * j * k <= most and not (x % i or y % j or z % k))
        return whole and grid and block and cluster and 0 <= launch.smem <= self._device.smem_max

    def _tensor_of(self, argument: Located) -> str:
        tree = argument.expression.tree
        own = {let.name for let in self.kernel.lets} | {p.name for p in self.kernel.params}
        return tree.id if isinstance(tree, ast.Name) and tree.id in self._names - own else ""

    def _compile(self) -> Callable[..., tuple[tuple[tuple[int, ...], ...], tuple[LaunchNumbers, ...]]]:
        scope = {"math": math, "CutegenFacts": CallFacts, "CutegenLaunch": LaunchNumbers}
        exec(compile(f"{HELPERS_PYTHON}\n{self.source}", "<launch plan>", "exec"), scope)  # written here, not given
        return scope["cutegen_plan"]  # type: ignore[return-value]

    def _write(self) -> str:
        kernel, device = self.kernel, self._device
        digits = re.search(r"\d+", device.arch)
        known: dict[str, Number] = {
            "sm_count": device.sm_count, "smem_max": device.smem_max, "warp_size": device.warp_size,
            "arch": int(digits[0]) if digits else 0,
        }  # fmt: skip
        fixed = {**kernel.defaults(), **known}
        lines = [f"{_own(name)} = {int(v) if isinstance(v, bool) else v!r}" for name, v in fixed.items()]
        lines += [f"{_own(let.name)} = {_text(let.value)}" for let in kernel.lets]
        for number, spec in enumerate(kernel.scratch):
            lines += [f"cutegen_shape_{number} = {_tuple(spec.shape)}"]
            lines += [f"{_own(spec.name)} = CutegenFacts(cutegen_shape_{number}, {ITEMSIZE[spec.dtype]})"]
        lines += ["cutegen_launches = []"]
        for number, launch in enumerate(kernel.launches):
            lines += [f"if {_text(launch.when)}:" if launch.when else "if True:"]
            lines += [f"    cutegen_launches.append({self._made(number, launch)})"]
        shapes = "".join(f"cutegen_shape_{n}, " for n in range(len(kernel.scratch)))
        lines += [f"return ({shapes}), tuple(cutegen_launches)"]
        parameters = ", ".join(_own(name) for name in (*self.tensors, *self._signature.scalars))
        return f"def cutegen_plan({parameters}):\n" + "".join(f"    {line}\n" for line in lines)

    def _made(self, number: int, launch: LaunchSpec) -> str:
        smem = _text(launch.smem) if launch.smem else "0"
        cluster = _dim3(launch.cluster) if launch.cluster else "(1, 1, 1)"
        passed = [a for a, name in zip(launch.args, self.pointers[number], strict=True) if not name]
        return (
            f"CutegenLaunch({number}, {_dim3(launch.grid)}, {_dim3(launch.block)}, {smem}, {cluster}, {_tuple(passed)})"
        )


def _is_shape(shape: tuple[int, ...]) -> bool:
    whole = all(type(extent) is int and extent >= 0 for extent in shape)
    return whole and prod(shape) <= MAX_SCRATCH_BYTES


class _Prefixed(ast.NodeTransformer):
    """Set the plan's names apart from Python's and from the function's own."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_own(node.id))

    def visit_Call(self, node: ast.Call) -> ast.Call:
        return ast.Call(node.func, [self.visit(a) for a in node.args], [])


def _own(name: str) -> str:
    return f"v_{name}"


def _text(located: Located) -> str:
    tree = parse_python_expression(to_python(located.expression))
    return ast.unparse(_Prefixed().visit(tree))


def _tuple(located: Sequence[Located]) -> str:
    return f"({''.join(f'{_text(each)}, ' for each in located)})"


def _dim3(located: Sequence[Located]) -> str:
    texts = [_text(each) for each in located]
    return f"({', '.join([*texts, '1', '1'][:3])})"
