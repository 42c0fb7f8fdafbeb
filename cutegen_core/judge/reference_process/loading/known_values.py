"""Small tensors of known values among fake ones: `[x.item() for x in torch.linspace(0, rate, depth)]` in a model's
`__init__`.

Fake tensors have no values. Here a short range, and what is computed of such ranges alone, is a real tensor; whatever
is drawn at random or meets a fake tensor stays fake.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cutegen_core.records.errors import ProblemError

_WITHOUT_VALUES = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException,
                   UnsupportedOperatorException)  # fmt: skip
_SAID_WITHOUT_VALUES = (
    ".numpy()", "data-dependent", "data is not allocated yet", "faketensor",
    "tensors used as indices must be long, int, byte or bool",  # of a mask of bytes, which a real run takes
)  # fmt: skip
_RANGES = {"aten::arange", "aten::linspace", "aten::logspace", "aten::scalar_tensor"}
_MOST_ELEMENTS = 4096


def needs_values(error: ProblemError) -> bool:
    """Return whether a file failed only because fake tensors have no values, so that a real run may succeed."""
    cause = error.__cause__
    return isinstance(cause, _WITHOUT_VALUES) or any(words in str(cause).lower() for words in _SAID_WITHOUT_VALUES)


class KnownValues(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Goes round a `FakeTensorMode`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        named = kwargs or {}
        if _is_known(func, [one for one in pytree.tree_leaves((args, named)) if isinstance(one, torch.Tensor)]):
            with unset_fake_temporarily():
                made = func(*args, **named)
            if all(one.numel() <= _MOST_ELEMENTS for one in _tensors(made)):
                return made
        return func(*args, **named)


def _is_known(func: Any, operands: list[torch.Tensor]) -> bool:  # noqa: ANN401 - an operator of torch
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if not operands:
        return str(func.name()).partition(".")[0] in _RANGES
    return not any(isinstance(one, FakeTensor) or one.numel() > _MOST_ELEMENTS for one in operands)


def _tensors(made: Any) -> list[torch.Tensor]:  # noqa: ANN401 - whatever the operator returns
    return [one for one in pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]
