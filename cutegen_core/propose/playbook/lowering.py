"""Lower a traced graph of ATen operations to `Value`s, with composite operations taken apart.

softmax, layer norm and their kin become reductions and pointwise arithmetic in their numerically stable form, products
become `Product`, views become `Move`: `rules` says how. What has no rule raises NotInPlaybook with its name; so does
what writes to its operand where the operand is read by another name afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from cutegen_core.propose.playbook.call import COVERED, OperationCall, not_in_playbook
from cutegen_core.propose.playbook.formulas import cast, wrapped
from cutegen_core.propose.playbook.graphs.in_place import described, needed, seen_writes, with_whole_writes
from cutegen_core.propose.playbook.graphs.unread import refuse_unread
from cutegen_core.propose.playbook.pointwise.operations import BINARY, UNARY
from cutegen_core.propose.playbook.rules import RULES, SEVERAL
from cutegen_core.propose.playbook.values import (
    POSITIONS,
    NotInPlaybook,
    SizedInt,
    Value,
    compute,
    constant,
    contiguous,
    expand,
    extent,
    fits,
    load,
)
from cutegen_core.records import operations as ops
from cutegen_core.records.graph import Graph, Node
from cutegen_core.records.operations import Flow
from cutegen_core.records.problem import Signature

_ALONG = frozenset((Flow.SCAN, Flow.SORT, Flow.SOFTMAX, Flow.SCATTER, Flow.MOVE))
"""What goes along a dimension."""
_COMPUTED = frozenset((Flow.POINTWISE, Flow.COPY, Flow.PRODUCT, Flow.CONTRACTION))
"""What may come to more than a whole number of few bits holds."""


def lower(graph: Graph, signature: Signature) -> tuple[Value, ...]:
    """Return one value per output of the signature; raise NotInPlaybook with the first operation that has no rule."""
    if graph.reason or not graph.nodes:
        raise NotInPlaybook(f"the reference could not be traced ({graph.reason or 'no operations'}); {COVERED}")
    graph = with_whole_writes(graph)
    names = {t.name for t in signature.inputs}
    values: dict[str, Value] = {}
    made: dict[Hashable, Value] = {}
    counted, refused = needed(graph), seen_writes(graph)
    for node in graph.nodes:
        try:
            if node.name in refused:
                raise not_in_playbook(described(node))
            if node.op == "input" and node.name in names and node.name in counted:
                values[node.name] = load(node.name, node.dtype, node.shape)
            elif node.op != "input" and node.name in counted:
                values.update(_results(node, graph, values, made))
        except NotInPlaybook as reason:
            raise NotInPlaybook(f"line {node.line}: {reason}" if node.line else str(reason)) from reason
    if any(0 in node.shape for node in graph.nodes if node.name in graph.outputs):
        raise not_in_playbook("an output without elements")
    missing = [name for name in graph.outputs if name not in values]
    if missing:
        raise NotInPlaybook(f"the output '{missing[0]}' is not a plain tensor value; {COVERED}")
    return tuple(values[name] for name in graph.outputs)


def _results(node: Node, graph: Graph, values: Mapping[str, Value], made: dict[Hashable, Value]) -> Mapping[str, Value]:
    """Return what an operation or a constant is; of an operation with several results, by the names of these."""
    rule = ops.name(node)
    if node.op == "constant":
        return {node.name: _constant(node, graph.constants.get(node.name, ()))}
    call = _checked(OperationCall(node, values, made))
    if rule in SEVERAL:
        results = SEVERAL[rule](call)
        refuse_unread(call)
        return results
    value = _value(rule, call)
    if not fits(value.dims, node.shape):
        shapes = f"{list(map(int, value.sizes))} instead of {list(map(int, node.shape))}"
        raise not_in_playbook(f"this form of '{node.op}', for which its rule has the shape {shapes},")
    if value.dtype != node.dtype:
        dtypes = f"{value.dtype} instead of {node.dtype}"
        raise not_in_playbook(f"this form of '{node.op}', for which its rule has {dtypes},")
    if any(dim.nothing for dim in value.dims):  # no kernel is needed for it
        value = expand(constant(0, value.dtype), value.dims)
    _name_sizes(node, value)
    return {node.name: wrapped(value) if ops.traits(node).flow in _COMPUTED else value}


def _checked(call: OperationCall) -> OperationCall:
    """Return the call; refuse one along a dimension of what has none."""
    if call.node.args and ops.traits(call.node).flow in _ALONG:
        first = call.values.get(getattr(call.node.args[0], "node", ""))
        if first is not None and not first.dims:
            raise not_in_playbook(f"'{call.node.op}' of one number")
    return call


def _constant(node: Node, numbers: Sequence[float]) -> Value:
    """Return a constant tensor: one number everywhere, or as many as it has elements, chosen by position."""
    if not numbers:
        what = "a tensor of many numbers that is no input, parameter or buffer"
        raise not_in_playbook(f"{what} (nn.ModuleList registers layers, a plain list does not)")
    dims = tuple(extent(size) for size in node.shape)
    if len(set(numbers)) == 1:
        return expand(constant(numbers[0], node.dtype), dims) if dims else constant(numbers[0], node.dtype)
    where = contiguous(POSITIONS, "int64", dims)
    choices = "".join(f"{{0}} == {k} ? {{{k + 1}}} : " for k in range(len(numbers) - 1))
    operands = (constant(number, node.dtype) for number in numbers)
    return compute(f"{choices}{{{len(numbers)}}}", where, *operands, dtype=node.dtype)


def _name_sizes(node: Node, value: Value) -> None:
    """Let an extent that the graph could not name, and every number that is always equal to it, have its expression."""
    for size, own in zip(node.shape, value.dims, strict=True):
        if isinstance(size, SizedInt) and not size.text:
            size.text = own.text


def _value(rule: str, call: OperationCall) -> Value:
    """Return the value of the node, in the node's dtype."""
    if rule in RULES:
        value = RULES[rule](call)
    elif rule in UNARY:
        value = compute(UNARY[rule], call.floating(0), dtype=call.node.dtype)
    elif rule in BINARY:
        a, b = call.tensor(0), call.tensor(1)
        if call.node.dtype != "bool":  # what compares takes both as they are, as C++ does
            a, b = cast(a, call.node.dtype), cast(b, call.node.dtype)
        value = compute(BINARY[rule], a, b, dtype=call.node.dtype)
    elif ops.traits(call.node).flow is Flow.COPY and ops.traits(call.node).at == 0:
        return compute("{0}", call.floating(0), dtype=call.node.dtype)
    else:
        raise not_in_playbook(f"'{call.node.op}'")
    refuse_unread(call)
    return value
