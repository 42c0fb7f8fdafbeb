"""Rules of Einstein sums, contracted two by two in torch's order, and of products of several matrices.

That order is from the left, or the path that torch asks opt_einsum for where this is installed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import NamedTuple

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, cast, mul
from cutegen_core.propose.playbook.rules.products import matmul
from cutegen_core.propose.playbook.values import Value, diagonal, permute, product, reduce, reshaped, shared, unsqueeze


class Indexed(NamedTuple):
    """A value with a letter for each dimension, no letter twice."""

    letters: str
    value: Value

    def summed(self, kept: str) -> Indexed:
        """Return the sum over all letters that are not kept."""
        axes = [k for k, letter in enumerate(self.letters) if letter not in kept]
        if not axes:
            return self
        rest = "".join(letter for letter in self.letters if letter in kept)
        return Indexed(rest, reduce("sum", self.value, axes, False))

    def at(self, letters: Sequence[str]) -> Value:
        """Return the value with these dimensions in this order; one that it does not have is 1 long."""
        own = [letter for letter in letters if letter in self.letters]
        value = permute(self.value, [self.letters.index(letter) for letter in own])
        for k, letter in enumerate(letters):
            if letter not in self.letters:
                value = unsqueeze(value, k)
        return value


def _einsum(call: OperationCall) -> Value:
    equation, values = call.operand(0), call.tensors(1)
    if not isinstance(equation, str) or not values:
        raise not_in_playbook("this einsum")
    inputs, out = _letters(equation.replace(" ", ""), [len(value.dims) for value in values])
    alike = [cast(value, call.node.dtype) for value in values]
    pairs = [_without_twice(*pair) for pair in zip(inputs, alike, strict=True)]
    letters, path = [pair.letters for pair in pairs], call.integers(99, "path")
    return _contracted(letters, [pair.value for pair in pairs], out, call.node.dtype, path)


def _without_twice(letters: str, value: Value) -> Indexed:
    """Return the diagonal of two dimensions that have the same letter, until there are no two."""
    for letter in letters:
        if letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            rest = [k for k in range(len(letters)) if k not in (first, second)]
            left = "".join(letters[k] for k in rest) + letter
            return _without_twice(left, diagonal(permute(value, (first, second, *rest))))
    return Indexed(letters, value)


def _contracted(inputs: list[str], values: Sequence[Value], out: str, dtype: str, path: Sequence[int] = ()) -> Value:
    """Return the product, summed over all letters but those of `out`.

    Args:
        path: two numbers a step, of the operands that it replaces by their product, which comes last.
    """
    operands = [Indexed(*pair) for pair in zip(inputs, values, strict=True)]
    needed = [out + "".join(inputs[:k] + inputs[k + 1 :]) for k in range(len(inputs))]
    left = [one.summed(letters) for one, letters in zip(operands, needed, strict=True)]
    for pair in zip(path[::2], path[1::2], strict=True) if path else [(0, 1)] * (len(left) - 1):
        first, other = (left[k] for k in pair)
        left = [one for k, one in enumerate(left) if k not in pair]
        made = _contract(first, other, out + "".join(one.letters for one in left), dtype)
        left = [*left, made] if path else [made, *left]
    (whole,) = left
    return whole.at(out)


def _tensordot(call: OperationCall) -> Value:
    a, b = call.tensor(0), call.tensor(1)
    summed_a, summed_b = ([axis % len(v.dims) for axis in call.integers(i)] for v, i in ((a, 2), (b, 3)))
    left, right = list(ascii_letters[: len(a.dims)]), list(ascii_letters[len(a.dims) : len(a.dims) + len(b.dims)])
    for one, other in zip(summed_a, summed_b, strict=True):
        right[other] = left[one]
    out = [x for k, x in enumerate(left) if k not in summed_a] + [x for k, x in enumerate(right) if k not in summed_b]
    return _contracted(["".join(left), "".join(right)], [a, b], "".join(out), call.node.dtype)


def _multi_dot(call: OperationCall) -> Value:
    """Return the product of several matrices, in the order that takes the fewest operations, as torch does."""
    return _chained(tuple(call.tensors(0)), call.node.dtype)[1]


@shared
def _chained(parts: tuple[Value, ...], dtype: str) -> tuple[int, Value]:
    """Return the multiplications of the cheapest order, and the product."""
    if len(parts) == 1:
        return 0, parts[0]
    ways = []
    for k in range(1, len(parts)):
        (before, left), (after, right) = _chained(parts[:k], dtype), _chained(parts[k:], dtype)
        ways.append((before + after + left.numel * (right.sizes[-1] if len(right.dims) > 1 else 1), k, left, right))
    cost, _, left, right = min(ways, key=lambda way: way[:2])
    return cost, matmul(left, right, dtype)


def _letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, those that "..." stands for among them."""
    left, arrow, out = equation.partition("->")
    inputs = left.split(",")
    free = "".join(letter for letter in ascii_letters if letter not in equation)
    named = [len(letters.replace("...", "")) for letters in inputs]
    longest = max(rank - n for rank, n in zip(ranks, named, strict=True))
    if not arrow:
        counted = Counter(left.replace(",", "").replace(".", ""))
        out = "..." + "".join(sorted(letter for letter, times in counted.items() if times == 1))
    rest = [free[longest - (rank - n) : longest] for rank, n in zip(ranks, named, strict=True)]
    return [i.replace("...", r) for i, r in zip(inputs, rest, strict=True)], out.replace("...", free[:longest])


def _contract(a: Indexed, b: Indexed, kept: str, dtype: str) -> Indexed:
    """Return the product of two, summed over what both have and nothing else needs."""
    both = [letter for letter in a.letters if letter in b.letters]
    batch, summed = [x for x in both if x in kept], [x for x in both if x not in kept]
    rows, columns = ([x for x in one.letters if x not in both] for one in (a, b))
    if not summed:
        order = [*batch, *rows, *columns]
        return Indexed("".join(order), mul(a.at(order), b.at(order)))
    if not (rows and columns):
        order = [*batch, *rows, *columns, *summed]
        axes = range(-len(summed), 0)
        return Indexed("".join(order[: -len(summed)]), reduce("sum", mul(a.at(order), b.at(order)), axes, False))
    lead = [*batch, *rows[:-1], *columns[:-1]]
    left = _as_one(a.at([*lead, rows[-1], *summed]), len(lead) + 1, len(summed))
    right = _as_one(b.at([*lead, *summed, columns[-1]]), len(lead), len(summed))
    return Indexed("".join([*lead, rows[-1], columns[-1]]), matmul(left, right, dtype))


def _as_one(value: Value, first: int, many: int) -> Value:
    """Return the value with neighbouring dimensions put together."""
    if many == 1:
        return value
    dims = value.dims
    return reshaped(value, (*dims[:first], product(dims[first : first + many]), *dims[first + many :]))


def _bilinear(call: OperationCall) -> Value:
    """Return x A y for each of several matrices A, at each place."""
    left, matrices, right = call.tensor(0), call.tensor(2), call.tensor(1)
    lead = ascii_letters[3 : 2 + len(left.dims)]
    made = _contracted([f"{lead}a", "cab", f"{lead}b"], [left, matrices, right], f"{lead}c", call.node.dtype)
    return add(made, call.tensor(3)) if call.has(3, "bias") else made


RULES: Mapping[str, Rule] = {
    "einsum": _einsum, "tensordot": _tensordot, "linalg_multi_dot": _multi_dot, "chain_matmul": _multi_dot,
    "bilinear": _bilinear,
}  # fmt: skip
