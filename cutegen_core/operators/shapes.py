"""Derive, from the workloads a kernel was tested on, which shapes fit together and how large the results are.

Every extent of every tensor is compared with every other one over all workloads. What differs by the same number
everywhere (`indptr` has one entry more than the result has rows), or is the same everywhere while others vary, is a
rule: a call must keep it, and the results' extents follow from it. Awkward sizes keep chance out: the built-in problems
have primes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen_core.kernel.expressions import Number
from cutegen_core.records.errors import UsageError
from cutegen_core.records.problem import Signature, TensorSpec

Shape = tuple[int, ...]
Fit = Callable[[Sequence[Shape], Sequence[Number]], list[Shape] | None]
"""Of the inputs' shapes and the numbers, the results' shapes; None where the inputs do not fit together."""


@dataclass(frozen=True)
class TensorExtent:
    """One dimension of one input, by their positions; or a whole-number argument, whose `tensor` is -1."""

    tensor: int
    dim: int
    text: str


Columns = Mapping[TensorExtent, list[int]]
"""Every extent in every workload."""


@dataclass(frozen=True)
class Rule:
    """`left` is `right` + `offset`; without a `right`, `offset` itself."""

    left: TensorExtent
    right: TensorExtent | None
    offset: int

    def value(self, shapes: Sequence[Shape], numbers: Sequence[Number]) -> int:
        """Return what `left` must be."""
        return self.offset + (0 if self.right is None else _read(self.right, shapes, numbers))

    def expected(self, wanted: int) -> str:
        """Say what the tests of the kernel had."""
        if self.right is None:
            return f"it was {wanted} in every test of the kernel."
        offset = f" {'+' if self.offset > 0 else '-'} {abs(self.offset)}" if self.offset else ""
        return f"{self.right.text}{offset} is {wanted}: in every test of the kernel they were equal."


@dataclass(frozen=True)
class Shapes:
    """What a kernel takes and gives.

    Attributes:
        inputs, outputs: tensors of one workload: names, dtypes and ranks.
        numbers: names of plain numbers of the problem, such as `eps`, with the value of that workload.
        required: those that differ between workloads, so that a call must name them.
        rules: among the inputs' extents.
        results: of each output, a rule for each extent.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    numbers: Mapping[str, Number]
    required: tuple[str, ...]
    rules: tuple[Rule, ...]
    results: tuple[tuple[Rule, ...], ...]

    def output_shapes(self, shapes: Sequence[Shape], numbers: Sequence[Number]) -> list[Shape]:
        """Return the shapes of the results of inputs that were checked."""
        return [tuple([rule.value(shapes, numbers) for rule in rules]) for rules in self.results]

    def check(self, shapes: Sequence[Shape], numbers: Sequence[Number]) -> None:
        """Raise UsageError if extents do not fit together as they did in every workload."""
        for rule in self.rules:
            found, wanted = _read(rule.left, shapes, numbers), rule.value(shapes, numbers)
            if found != wanted:
                raise UsageError(f"{rule.left.text} is {found}, but {rule.expected(wanted)}")


def compile_fit(shapes: Shapes) -> Fit:
    """Write `Shapes.check` and `Shapes.output_shapes` as one expression, which a training step can afford."""
    kept = " and ".join(f"{_code(rule.left)} == {_value(rule)}" for rule in shapes.rules) or "True"
    results = "".join(f"({''.join(f'{_value(rule)}, ' for rule in rules)}), " for rules in shapes.results)
    fit: Fit = eval(f"lambda shapes, numbers: [{results}] if {kept} else None")  # written here, not given
    return fit


def derive(signatures: Sequence[Signature]) -> Shapes:
    """Find the rules.

    Raises:
        UsageError: workloads differ in dtypes or ranks, or the extent of a result follows from nothing.
    """
    last = signatures[-1]
    for other in signatures:
        same = [(t.name, t.dtype, len(t.shape)) for t in other.tensors]
        if same != [(t.name, t.dtype, len(t.shape)) for t in last.tensors]:
            raise UsageError("the problem's workloads differ in dtypes or ranks: an operator needs them alike.")
    extents = list(_extents(last))
    columns = {extent: [_extent_of(extent, s) for s in signatures] for extent in extents}
    rules = tuple(rule for n, extent in enumerate(extents) if (rule := _rule(extent, extents[:n], columns)))
    results = tuple(
        tuple(_result(spec, dim, extents, columns, [s.outputs[k].shape[dim] for s in signatures])
              for dim in range(len(spec.shape)))
        for k, spec in enumerate(last.outputs)
    )  # fmt: skip
    numbers = {name: value if isinstance(value, float) else int(value) for name, value in last.scalars.items()}
    required = tuple(name for name, value in numbers.items() if any(s.scalars.get(name) != value for s in signatures))
    return Shapes(last.inputs, last.outputs, numbers, required, results=results, rules=rules)


def _extents(signature: Signature) -> Iterator[TensorExtent]:
    for number, spec in enumerate(signature.inputs):
        yield from (TensorExtent(number, dim, f"{spec.name}.shape[{dim}]") for dim in range(len(spec.shape)))
    for number, (name, value) in enumerate(signature.scalars.items()):
        if isinstance(value, int) and not isinstance(value, bool):
            yield TensorExtent(-1, number, name)


def _extent_of(extent: TensorExtent, signature: Signature) -> int:
    return _read(extent, [t.shape for t in signature.inputs], list(signature.scalars.values()))


def _read(extent: TensorExtent, shapes: Sequence[Shape], numbers: Sequence[Number]) -> int:
    return shapes[extent.tensor][extent.dim] if extent.tensor >= 0 else int(numbers[extent.dim])


def _code(extent: TensorExtent) -> str:
    return f"shapes[{extent.tensor}][{extent.dim}]" if extent.tensor >= 0 else f"int(numbers[{extent.dim}])"


def _value(rule: Rule) -> str:
    return str(rule.offset) if rule.right is None else f"{_code(rule.right)} + {rule.offset}"


def _rule(extent: TensorExtent, earlier: Sequence[TensorExtent], columns: Columns) -> Rule | None:
    """Return how an extent follows from an earlier one, or that it is always the same; None if it is free."""
    own = columns[extent]
    if len(set(own)) == 1 and any(len(set(column)) > 1 for column in columns.values()):
        return Rule(extent, None, own[0])
    return _following(extent, own, earlier, columns)


def _following(extent: TensorExtent, own: list[int], others: Sequence[TensorExtent], columns: Columns) -> Rule | None:
    found = None
    for other in others:
        offset = own[0] - columns[other][0]
        if abs(offset) <= 1 and all(mine - its == offset for mine, its in zip(own, columns[other], strict=True)):
            if offset == 0:
                return Rule(extent, other, 0)
            found = found or Rule(extent, other, offset)
    return found


def _result(
    spec: TensorSpec,
    dim: int,
    extents: Sequence[TensorExtent],
    columns: Columns,
    own: list[int],
) -> Rule:
    extent = TensorExtent(-2, dim, f"{spec.name}.shape[{dim}]")
    rule = _following(extent, own, extents, columns)
    if rule is None and len(set(own)) == 1:
        rule = Rule(extent, None, own[0])
    if rule is None:
        raise UsageError(
            f"{extent.text} follows from no extent of an input and no number (it is {', '.join(map(str, own[:6]))} in "
            "the problem's workloads): the kernel cannot be made an operator."
        )
    return rule
