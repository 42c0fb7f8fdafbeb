"""Take PyTorch's recurrent layers as one operation each where only shapes and costs are asked for.

PyTorch takes them apart, step by step: 512 steps of six layers are 58,000 operations, some twenty seconds on fake
tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from cutegen_core.judge.reference_process.modes.each_call import EachCall

_SPACE = "cutegen"
_ARGUMENTS, _DIMENSIONS = 9, 3
"""Of such a call, and of its input; that of packed sequences has two."""
_STATES = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}
"""Layers -> how many states a step hands on."""
_WHOLE: dict[object, torch._ops.OpOverloadPacket] = {}
"""PyTorch's functions -> the operations that stand for them."""
_library: Any = torch.library.Library(_SPACE, "DEF")  # type: ignore[no-untyped-call]


class WholeRecurrentLayers(EachCall):
    """Calls one operation for each recurrent layer of fake tensors; those of packed sequences go to PyTorch."""

    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        whole = _WHOLE.get(func)
        fake = whole is not None and not kwargs and len(args) == _ARGUMENTS and isinstance(args[0], FakeTensor)
        if whole is None or not fake or args[0].dim() != _DIMENSIONS:
            return func(*args, **kwargs)
        return whole(*args)


def name_of(operation: str) -> str:
    """Return an operation's name as PyTorch has it."""
    return operation.replace(f"{_SPACE}.", "aten.", 1)


def _results(states: int, x: torch.Tensor, *given: Any) -> tuple[torch.Tensor, ...]:  # noqa: ANN401 - as PyTorch's
    begin, both_ways = given[0], given[-2]
    handed_on = list(begin) if states > 1 else [begin]
    width = handed_on[0].shape[-1] * (2 if both_ways else 1)
    return x.new_empty((*x.shape[:2], width)), *(torch.empty_like(one) for one in handed_on)


def flops_of() -> dict[object, Callable[..., int]]:
    """Return what the products of such an operation cost, as `FlopCounterMode` takes it."""
    return dict.fromkeys(_WHOLE.values(), _flops)


def _flops(x: Sequence[int], begin: Any, weights: Sequence[Sequence[int]], *_: Any, **__: Any) -> int:  # noqa: ANN401
    rows = x[0] * x[1]
    return 2 * rows * sum(shape[0] * shape[1] for shape in weights if len(shape) > 1)


for _name, _count in _STATES.items():
    _begin = "Tensor[] hx" if _count > 1 else "Tensor hx"
    _library.define(
        f"{_name}(Tensor input, {_begin}, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
        f"bool bidirectional, bool batch_first) -> ({', '.join(['Tensor'] * (1 + _count))})"
    )
    _library.impl(_name, partial(_results, _count), "CompositeExplicitAutograd")
    _WHOLE[getattr(torch, _name)] = getattr(torch.ops.cutegen, _name)
