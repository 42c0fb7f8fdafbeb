"""What every mode is that looks at each operation of a run, below PyTorch's functions."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class EachOperation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation; nothing compiles it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return that nothing compiles this: torch would import its compiler at the first call (a second)."""
        return False
