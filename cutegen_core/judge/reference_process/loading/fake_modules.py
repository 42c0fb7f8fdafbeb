"""Convert modules of fake tensors: `.half()`, `.to(...)` and their kind.

torch swaps a module's tensors for the converted ones, which it refuses for fake tensors that something refers to
weakly, as their mode does. Here the module gets the converted tensors themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

Conversion = Callable[[torch.Tensor], torch.Tensor]


@contextmanager
def converted_anew() -> Iterator[None]:
    """Let conversions of modules put new tensors into them."""
    with patch.object(torch.nn.Module, "_apply", _apply):
        yield


def _apply(module: torch.nn.Module, convert: Conversion, recurse: bool = True) -> torch.nn.Module:
    """Stand for `torch.nn.Module._apply`."""
    once = convert if isinstance(convert, _Once) else _Once(convert)
    for child in module.children() if recurse else ():
        child._apply(once)  # type: ignore[no-untyped-call]
    for held in (module._parameters, module._buffers):
        tensors: dict[str, Any] = held
        tensors.update({name: once(tensor) for name, tensor in tensors.items() if tensor is not None})
    return module


class _Once:
    """Converts a tensor that several modules share once, so that they share the result."""

    def __init__(self, convert: Conversion) -> None:
        self._convert = convert
        self._done: dict[torch.Tensor, torch.Tensor] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor not in self._done:
            with torch.no_grad():
                made = self._convert(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, tensor.requires_grad)
            self._done[tensor] = self._done[made] = made
        return self._done[tensor]
