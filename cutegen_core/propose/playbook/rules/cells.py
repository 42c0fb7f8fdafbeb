"""Rules of one step of a recurrent network: products of the input and of the state, and what gates make of them.

The formulas are those of PyTorch's `RNNCell`, `LSTMCell` and `GRUCell`; a product's rows are the gates, one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen_core.propose.playbook.call import OperationCall, Rule, not_in_playbook
from cutegen_core.propose.playbook.formulas import add, apply, mul, sub
from cutegen_core.propose.playbook.rules.products import matmul
from cutegen_core.propose.playbook.values import Value, extent, permute, window
from cutegen_core.records.graph import Ref

_INPUT_WEIGHT, _STATE_WEIGHT, _INPUT_BIAS, _STATE_BIAS = 2, 3, 4, 5
"""The operands behind the input and the state."""


def _plain(activation: str) -> Rule:
    def rule(call: OperationCall) -> Value:
        return apply(activation, add(*_both(call, call.tensor(1))))

    return rule


def _gru(call: OperationCall) -> Value:
    state = call.tensor(1)
    reset, update = (apply("sigmoid", add(*_both(call, state, gate))) for gate in (0, 1))
    of_input, of_state = _both(call, state, 2)
    new = apply("tanh", add(of_input, mul(reset, of_state)))
    return add(mul(sub(state, new), update), new)


def _lstm(call: OperationCall) -> dict[str, Value]:
    given = call.operand(1)
    names = [one.node for one in given if isinstance(one, Ref)] if isinstance(given, tuple) else []
    states = [call.values[name] for name in names if name in call.values]
    if len(states) != 2:
        raise not_in_playbook("a step of an LSTM without its two states")
    hidden, cell = states
    take, keep, new, show = (add(*_both(call, hidden, gate)) for gate in range(4))
    cell = add(mul(apply("sigmoid", keep), cell), mul(apply("sigmoid", take), apply("tanh", new)))
    results = mul(apply("sigmoid", show), apply("tanh", cell)), cell
    return {f"{call.node.name}[{k}]": result for k, result in enumerate(results)}


def _both(call: OperationCall, state: Value, gate: int = 0) -> tuple[Value, Value]:
    """Return what one of the gates, each as wide as the state, gets of the input and of the state."""
    width = state.dims[-1]
    first = width.times(extent(gate))

    def part(x: Value, weight: int, bias: int) -> Value:
        product = matmul(x, permute(call.tensor(weight), (1, 0)), call.node.dtype)
        whole = add(product, call.tensor(bias)) if call.has(bias) else product
        return window(whole, -1, first, width)

    return part(call.tensor(0), _INPUT_WEIGHT, _INPUT_BIAS), part(state, _STATE_WEIGHT, _STATE_BIAS)


RULES: Mapping[str, Rule] = {"rnn_tanh_cell": _plain("tanh"), "rnn_relu_cell": _plain("relu"), "gru_cell": _gru}

SEVERAL: Mapping[str, Callable[[OperationCall], dict[str, Value]]] = {"lstm_cell": _lstm}
