"""Rules of whole recurrent layers: PyTorch's `RNN`, `GRU` and `LSTM`, of several layers and both directions.

What the input brings to all steps of a layer is one product; a step adds what the state brings. The formulas are those
of PyTorch's layers of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cutegen_core.propose.playbook.call import OperationCall, not_in_playbook
from cutegen_core.propose.playbook.formulas import add
from cutegen_core.propose.playbook.rules.products import matmul
from cutegen_core.propose.playbook.values import (
    ONE,
    ZERO,
    Constant,
    Extent,
    Join,
    Move,
    Recurrent,
    Value,
    combined,
    extent,
    permute,
    squeeze,
    unsqueeze,
    window,
)

_STATES, _WEIGHTS, _HAS_BIASES, _LAYERS, _DROPOUT, _TRAINING, _BOTH_WAYS, _BATCH_FIRST = range(1, 9)
"""The operands behind the input."""


def _layers(kind: str, call: OperationCall) -> dict[str, Value]:
    """Return the states of the last layer behind each step, then those of all layers behind the last, and the cells."""
    given = call.operand(_STATES)
    states = call.tensors(_STATES) if isinstance(given, tuple) else [call.tensor(_STATES)]
    ways, count = 1 + call.flag(_BOTH_WAYS, "bidirectional"), int(call.number(_LAYERS, "num_layers", 1))
    weights, each = call.tensors(_WEIGHTS), 4 if call.flag(_HAS_BIASES, "has_biases") else 2
    if len(weights) != each * ways * count or len(states) != 1 + (kind == "lstm"):
        raise not_in_playbook(f"'{call.node.op}' of packed sequences, or with projections of its states,")
    dropped = call.number(_DROPOUT, "dropout", 0)
    if call.flag(_TRAINING, "train") and dropped > 0 and count > 1:
        raise not_in_playbook(f"'{call.node.op}' with dropout in training")
    axis = int(call.flag(_BATCH_FIRST, "batch_first"))

    x, last = call.tensor(0), list[list[Value]]()
    for layer in range(count):
        made = []
        for way in range(ways):
            at = layer * ways + way
            begin = [None if _is_zero(one) else _layer_of(one, at) for one in states]
            one = _one_way(kind, x, weights[each * at : each * (at + 1)], begin, axis, backwards=way == 1)
            made.append(_parts(one, one.weight.dims[1], len(states))[0])
            last.append(_parts(_behind_last_step(one), one.weight.dims[1], len(states)))
        x = _along(made, -1)
    ends = [_along([unsqueeze(part, 0) for part in parts], 0) for parts in zip(*last, strict=True)]
    return {f"{call.node.name}[{k}]": result for k, result in enumerate((x, *ends))}


def _one_way(
    kind: str, x: Value, weights: Sequence[Value], begin: Sequence[Value | None], axis: int, *, backwards: bool
) -> Recurrent:
    of_input, of_state, *biases = weights
    given = matmul(x, permute(of_input, (1, 0)), x.dtype)
    given = add(given, biases[0]) if biases else given
    state, cells = (*begin, None)[:2]
    width = of_state.dims[1].times(extent(len(begin)))
    return Recurrent(
        (*x.dims[:2], width), x.dtype, kind, given, of_state, biases[1] if biases else None, state, cells, axis,
        backwards,
    )  # fmt: skip


def _behind_last_step(one: Recurrent) -> Value:
    """Return what there is behind the step that comes last."""
    steps = one.dims[one.axis]
    at = ZERO if one.backwards else combined(f"({steps.text} - 1)", lambda n: n - 1, steps)
    return squeeze(window(one, one.axis, at, ONE), (one.axis,))


def _parts(value: Value, width: Extent, count: int) -> list[Value]:
    """Return the states, and the cells if they lie behind them."""
    if count == 1:
        return [value]
    return [window(value, -1, width.times(extent(part)), width) for part in range(count)]


def _along(pieces: Sequence[Value], axis: int) -> Value:
    """Return pieces of one length one after the other."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    axis %= len(first.dims)
    dims = (*first.dims[:axis], first.dims[axis].times(extent(len(pieces))), *first.dims[axis + 1 :])
    return Join(dims, first.dtype, tuple(pieces), axis)


def _layer_of(states: Value, at: int) -> Value:
    return squeeze(window(states, 0, extent(at), ONE), (0,))


def _is_zero(value: Value) -> bool:
    while isinstance(value, Move):
        value = value.operand
    return isinstance(value, Constant) and value.number == 0


SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {
    "lstm": partial(_layers, "lstm"), "gru": partial(_layers, "gru"),
    "rnn_tanh": partial(_layers, "tanh"), "rnn_relu": partial(_layers, "relu"),
}  # fmt: skip
