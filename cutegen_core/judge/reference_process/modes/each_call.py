"""What every mode of this folder is: it looks at each call of PyTorch's functions before PyTorch does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode


class EachCall(TorchFunctionMode):
    """Hands each call to `call`, whose result is the call's."""

    @abstractmethod
    def call(self, func: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
        """Return `func(*args, **kwargs)`, or what stands for it."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        return self.call(func, args, kwargs or {})
