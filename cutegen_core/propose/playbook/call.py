"""An operation of a traced graph with its operands, as a rule of the playbook gets it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from cutegen_core.propose.playbook.formulas import as_stored, cast, like, mul
from cutegen_core.propose.playbook.values import NotInPlaybook, Value, constant
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Node, Operand, Ref

COVERED = (
    "covered are elementwise chains, views, joins and elements by index, reductions, norms, losses and softmax, scans, "
    "sorting and top-k, segments, matrix products, convolutions, pooling, attention and recurrent layers, and chains "
    "of these"
)
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

_STEPS = frozenset({
    "floor", "ceil", "trunc", "round", "frac", "sign", "sgn", "heaviside", "fmod", "remainder", "floor_divide",
    "hardshrink", "threshold", "fake_quantize_per_tensor_affine",
})  # fmt: skip
"""Operations whose floats change by steps; those that give no floats do, too."""


def not_in_playbook(what: str) -> NotInPlaybook:
    """Return the error for an operation without a rule, with what is covered."""
    return NotInPlaybook(f"{what} is not in the playbook; {COVERED}")


@dataclass(frozen=True)
class OperationCall:
    """A node of the graph with its operands; it notes which of them a rule reads.

    Attributes:
        made: what rules made of operands for more than one operation, by keys of their own.
        read: positions and keywords of the operands that were read.
    """

    node: Node
    values: Mapping[str, Value]
    made: dict[Hashable, Value] = field(default_factory=dict)
    read: set[int | str] = field(default_factory=set)

    @property
    def stepwise(self) -> bool:
        """Return whether the least change of an operand may change the result by a step."""
        given = self.node.kwargs.get("rounding_mode") is not None
        return given or self.node.dtype not in FLOATS or ops.name(self.node) in _STEPS

    def operand(self, index: int, name: str = "", default: Operand = None) -> Operand:
        """Return positional operand `index`, or the keyword `name`, or `default`."""
        if index < len(self.node.args):
            self.read.add(index)
            return self.node.args[index]
        return self.keyword(name, default)

    def keyword(self, name: str, default: Operand = None) -> Operand:
        """Return an operand that has a keyword only."""
        self.read.add(name)
        return self.node.kwargs.get(name, default)

    def tensor(self, index: int, name: str = "") -> Value:
        """Return an operand as a value; cast a number to the arithmetic of the result."""
        operand = self.operand(index, name)
        if isinstance(operand, Ref):
            if operand.node not in self.values:
                raise not_in_playbook(f"'{self.node.op}' of '{operand.node}'")
            value = self.values[operand.node]
            return as_stored(value) if self.stepwise else value
        if isinstance(operand, bool | int | float):
            return constant(operand, self._number_dtype(operand))
        raise not_in_playbook(f"'{self.node.op}' with operand {operand!r}")

    def tensors(self, index: int) -> list[Value]:
        """Return an operand that is a list of tensors; empty if it is none."""
        listed = self.operand(index)
        return [self.values[t.node] for t in listed if isinstance(t, Ref)] if isinstance(listed, tuple) else []

    def _number_dtype(self, number: bool | int | float) -> str:
        """Return the dtype of a number among tensors: theirs, if that is of its kind or wider; else the result's, or
        the usual one of its kind where the result only says how they compare."""
        for operand in self.node.args:
            if isinstance(operand, Ref) and operand.node in self.values:
                dtype = self.values[operand.node].dtype
                if dtype in FLOATS or isinstance(number, bool) or (isinstance(number, int) and dtype != "bool"):
                    return dtype
        own = self.node.dtype
        if isinstance(number, float):
            return own if own in FLOATS else "float32"
        return "int64" if own == "bool" else own

    def valued(self, index: int, name: str = "") -> Value:
        """Return an operand in the result's dtype, a number too, whatever the other operands are."""
        operand = self.operand(index, name)
        if isinstance(operand, bool | int | float):
            return constant(operand, self.node.dtype)
        return cast(self.tensor(index, name), self.node.dtype)

    def floating(self, index: int) -> Value:
        """Return a tensor operand in the result's dtype: integers that enter float arithmetic are converted first."""
        value = self.tensor(index)
        return cast(value, self.node.dtype) if self.node.dtype in FLOATS else value

    def scaled(self, index: int) -> Value:
        """Return an operand of add and sub, times `alpha`."""
        value, alpha = self.tensor(index), self.keyword("alpha", 1)
        if alpha == 1 or not isinstance(alpha, int | float):
            return value
        value = cast(value, self.node.dtype)
        return mul(value, like(value, alpha))

    def has(self, index: int, name: str = "") -> bool:
        return self.operand(index, name) is not None

    def number(self, index: int, name: str, default: float) -> float:
        value = self.operand(index, name, default)
        if not isinstance(value, int | float):
            raise not_in_playbook(f"'{self.node.op}' with {name} = {value!r}")
        return value

    def integers(self, index: int, name: str = "") -> tuple[int, ...]:
        """Return a dimension, or a list of them; empty if not given."""
        value = self.operand(index, name)
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        return tuple(i for i in items if isinstance(i, int))

    def flag(self, index: int, name: str, default: bool = False) -> bool:
        return bool(self.operand(index, name, default))


Rule = Callable[[OperationCall], Value]
"""How one operation becomes a value."""
