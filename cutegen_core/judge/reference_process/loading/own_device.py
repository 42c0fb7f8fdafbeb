"""Put the tensors of a file that names a device where the workbench runs it.

Files written for a GPU say `device="cuda"`, `.cuda()` or `.to("cuda:1")`. Under `on_own_device` each of these means
torch's default device: the CPU in the judge, the GPU in the judge on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

_MOVES = (torch.Tensor.to, torch.Tensor.type)
"""Calls that take a device's name as a plain argument."""


@contextmanager
def on_own_device() -> Iterator[None]:
    """Read every GPU that code within names as torch's default device, which the code cannot change.

    What it would compile stays as it is written: a reference says what is right, and torch.compile is timed beside it.
    """
    with (
        patch.object(torch, "set_default_device", _keep_default),
        patch.object(torch, "compile", _uncompiled),
        patch.object(torch.nn.Module, "compile", _keep_module),
        _OwnDevice(torch.get_default_device()),
    ):
        yield


def _keep_default(device: object) -> None:
    """Stand for `torch.set_default_device`."""


def _keep_module(module: torch.nn.Module, *args: object, **settings: object) -> None:
    """Stand for `torch.nn.Module.compile`."""


def _uncompiled(model: Any = None, **settings: object) -> Any:  # noqa: ANN401 - a function, a module, or a decorator
    """Stand for `torch.compile`, called or as a decorator."""
    return model if model is not None else lambda function: function


class _OwnDevice(TorchFunctionMode):
    def __init__(self, own: torch.device) -> None:
        super().__init__()
        self._own = own

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever torch returns  # fmt: skip
        given = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(self._own)
        if "device" in given:
            given["device"] = self._read(given["device"])
        named = func in _MOVES
        return func(*(self._read(a) if named or isinstance(a, torch.device) else a for a in args), **given)

    def _read(self, value: Any) -> Any:  # noqa: ANN401
        """Return the own device for a GPU, anything else as it is; a plain number is a GPU's only as a device."""
        if isinstance(value, torch.device):
            return self._own if value.type == "cuda" else value
        named = isinstance(value, str) and value.partition(":")[0] == "cuda"
        return self._own if named else value
