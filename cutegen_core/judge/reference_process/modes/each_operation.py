"""What every mode is that looks at each operation of a run, below PyTorch's functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class EachOperation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands each operation to `call`, whose result is the operation's; nothing compiles it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return that nothing compiles this: torch would import its compiler at the first call (a second)."""
        return False

    @abstractmethod
    def call(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:  # noqa: ANN401 - an overload
        """Return `func(*args, **kwargs)`, or what stands for it."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None  # noqa: ANN401
    ) -> object:  # fmt: skip
        return self.call(func, args, kwargs or {})
