"""Read what the process of a problem file answered: JSON that the file's own code can have written.

It may say anything about its own file, but only in the expected form: no name that leads out of a folder, no size that
no tensor has, no graph that refers to nothing. Everything else is a ProblemError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cutegen_core.judge.problem_source import SizeSlot, SizeValue, numbers_of
from cutegen_core.judge.reference_process.forwards import Cost
from cutegen_core.judge.reference_process.full_sizes import SizedRun
from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import Graph, InputFacts, Node, Operand, Ref
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec, Values, Workload, WorkloadRole

_LONGEST_NAME = 200
_LONGEST_TEXT = 4000
_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = 1 << 48
_MOST_RUNS = 32

T = TypeVar("T")


class LintRun(NamedTuple):
    """Result of running a reference for the lint.

    Attributes:
        found: (rule of `lint.rules`, finding) pairs, in the order of the checks.
        usable: adversarial values on which the reference is defined.
    """

    found: tuple[tuple[str, str], ...]
    usable: tuple[Values, ...]


def read_answer(answer: Message, origin: str, read: Callable[[Message], T]) -> T:
    """Read an answer with one of the functions below.

    Raises:
        ProblemError: it does not have that form.
    """
    try:
        return read(answer)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        said = text(f"{type(error).__name__}: {error}")
        raise ProblemError(f"{origin}: its process gave an answer that cannot be used ({said}).") from error


def signature(answer: Message) -> Signature:
    """Read a signature: names that are unique and safe in paths, known dtypes, possible shapes."""
    data = answer["signature"]
    inputs, outputs = (tuple(_spec(s) for s in data[key]) for key in ("inputs", "outputs"))
    _require({t.role for t in outputs} <= {TensorRole.OUTPUT}, "an output with another role")
    _require(TensorRole.OUTPUT not in {t.role for t in inputs}, "an input with the role of an output")
    names = [tensor.name for tensor in (*inputs, *outputs)]
    _require(len(set(names)) == len(names), "a name that occurs twice")
    scalars = {_name(name): _number(value) for name, value in data["scalars"].items()}
    return Signature(inputs, outputs, scalars)


def graph(answer: Message) -> Graph:
    """Read a graph whose nodes refer to earlier ones only."""
    data = answer["graph"]
    known: set[str] = set()
    nodes = []
    for one in data["nodes"]:
        node = _node(one)
        _require(known.issuperset(node.operands()), f"node {node.name} reads a node that does not exist")
        known.add(node.name)
        nodes.append(node)
    outputs = tuple(data["outputs"])
    _require(known.issuperset((*outputs, *data["constants"])), "an output that is no node")
    constants = {name: tuple(map(float, values)) for name, values in data["constants"].items()}
    return Graph(tuple(nodes), outputs, text(data["reason"]), constants)


def lint_run(answer: Message) -> LintRun:
    """Read the result of a lint."""
    found = tuple((_string(one["rule"]), text(one["what"])) for one in answer["findings"])
    return LintRun(found, tuple(Values(word) for word in answer["usable"]))


def input_facts(answer: Message) -> Mapping[str, InputFacts]:
    """Read the facts about the inputs, by input name."""
    return {name: _fact(fact) for name, fact in answer["facts"].items()}


def place_facts(answer: Message) -> Mapping[str, Mapping[str, int]]:
    """Read what is known of the inputs of whole numbers of one workload, by input name."""
    found: Mapping[str, Mapping[str, int]] = answer["places"]
    for facts in found.values():
        _require(set(facts) == {"distinct", "first", "last"}, "a fact of an unknown kind")
        _require(all(type(number) is int for number in facts.values()), "a fact that is no whole number")
    return found


def workloads(answer: Message, slots: Mapping[str, SizeSlot]) -> tuple[Workload, ...]:
    """Read derived workloads; they may only set sizes that the file has."""
    return tuple(_workload(data, slots) for data in answer["workloads"])


def derived(answer: Message) -> Mapping[Values, str]:
    """Read on which kinds of values a kernel can be judged: kind -> why not, or ""."""
    return {Values(kind): text(doubt) for kind, doubt in answer["derived"]}


def ladders(answer: Message, slots: Mapping[str, SizeSlot]) -> tuple[tuple[SizedRun, ...], ...]:
    """Read runs near a benchmark's sizes; they may only set sizes that the file has."""
    found = tuple(
        tuple(SizedRun(_sizes(one["sizes"], slots), cost(one), _changed(one, slots)) for one in ladder)
        for ladder in answer["ladders"]
    )
    _require(len(found) <= _MOST_RUNS and all(len(ladder) <= _MOST_RUNS for ladder in found), "too many runs")
    return found


def _changed(data: Message, slots: Mapping[str, SizeSlot]) -> tuple[str, ...]:
    names = tuple(data["changed"])
    _require(set(names) <= set(slots), "a changed size that the file does not have")
    return names


def cost(answer: Message) -> Cost:
    """Read the cost of one forward."""
    numbers = answer["cost"]["elements"], answer["cost"]["flops"]
    _require(all(type(number) is int and number >= 0 for number in numbers), "a cost that is no number")
    return Cost(*numbers)


def text(value: object) -> str:
    """Return a text of the file's process that can be shown: no hidden characters, and not endless."""
    return show_hidden(str(value)[:_LONGEST_TEXT])


def _spec(data: Message) -> TensorSpec:
    return TensorSpec(_name(data["name"]), data["dtype"], _shape(data["shape"]), TensorRole(data["role"]))


def _name(value: object) -> str:
    """Return a name that is safe as part of a path; it may be no identifier."""
    fine = isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and all(c.isalnum() or c == "_" for c in value)
    _require(fine, f"the name {text(value)!r}")
    return str(value)


def _shape(value: Sequence[Any]) -> tuple[int, ...]:
    shape = tuple(value)
    possible = len(shape) <= _MOST_DIMENSIONS and all(type(d) is int and 0 <= d <= _MOST_ELEMENTS for d in shape)
    _require(possible and math.prod(shape) <= _MOST_ELEMENTS, "a shape that no tensor has")
    return shape


def _number(value: object) -> int | float | bool:
    _require(isinstance(value, int | float), f"{text(value)!r} instead of a number")
    assert isinstance(value, int | float)
    return value


def _node(data: Message) -> Node:
    args, kwargs = tuple(_operand(v) for v in data["args"]), {k: _operand(v) for k, v in data["kwargs"].items()}
    line = data["line"]
    _require(type(line) is int and line >= 0, "a line that is no number")
    name, op, shape, dtype = _string(data["name"]), _string(data["op"]), _shape(data["shape"]), _string(data["dtype"])
    return Node(name, op, args, kwargs, shape, dtype, line)


def _operand(value: Any) -> Operand:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return Ref(_string(value["node"]))
    if isinstance(value, list):
        return tuple(_operand(v) for v in value)
    _require(value is None or isinstance(value, bool | int | float | str), "an operand of an unknown kind")
    found: Operand = value
    return found


def _fact(data: Message) -> InputFacts:
    fact = InputFacts(**data)
    _require(all(type(n) is int for n in (fact.distinct, fact.first, fact.last)), "a fact that is no whole number")
    flags = (fact.symmetric, fact.sparse, fact.matters)
    _require(fact.nonzero in ("", "upper", "lower", "diagonal"), "a triangle of an unknown kind")
    _require(all(type(flag) is bool for flag in flags), "a fact that is neither true nor false")
    return fact


def _workload(data: Message, slots: Mapping[str, SizeSlot]) -> Workload:
    sizes = _sizes(data["sizes"], slots)
    return Workload(_name(data["name"]), WorkloadRole(data["role"]), sizes, Values(data["values"]))


def _sizes(data: Message, slots: Mapping[str, SizeSlot]) -> Mapping[str, SizeValue]:
    sizes = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
    for name, value in sizes.items():
        fine = name in slots and all(type(n) in (int, float) for n in numbers_of(value))
        _require(fine, f"the size {text(name)!r}")
    return sizes


def _string(value: object) -> str:
    _require(isinstance(value, str), "something else than a text")
    return str(value)


def _require(fine: bool, what: str) -> None:
    if not fine:
        raise ValueError(what)
