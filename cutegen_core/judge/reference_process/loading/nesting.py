"""Find the tensors in what a file hands over: in lists, tuples and dicts, and in dataclasses and mappings of its own.

pytree knows Python's containers. An object of a class that the file defines is a leaf to it, and the tensors in it
would be neither inputs nor compared: `opened` shows them, and refuses an object that it cannot open.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from cutegen_core.records.errors import ProblemError


class _Opened:
    """An object with its parts; pytree makes a copy of the object again, with other parts."""

    def __init__(self, whole: Any, parts: Mapping[str, Any]) -> None:  # noqa: ANN401 - whatever the file defines
        self.whole, self.parts = whole, parts


class _OpenedAs(NamedTuple):
    whole: Any
    names: tuple[str, ...]


def opened(value: Any, what: str) -> Any:  # noqa: ANN401 - whatever the file returns
    """Return the value as pytree can take it apart and put it together again.

    Args:
        what: who hands it over, for the complaint.

    Raises:
        ProblemError: it holds tensors in an object that is no container.
    """
    return pytree.tree_map(lambda leaf: _open(leaf, what), value)


def _open(leaf: Any, what: str) -> Any:  # noqa: ANN401
    if isinstance(leaf, torch.Tensor | type):
        return leaf
    if isinstance(leaf, MutableMapping):
        return _Opened(leaf, {key: opened(part, what) for key, part in leaf.items()})
    if dataclasses.is_dataclass(leaf):
        fields = (field.name for field in dataclasses.fields(leaf))
        return _Opened(leaf, {name: opened(getattr(leaf, name), what) for name in fields})
    held = vars(leaf).values() if hasattr(leaf, "__dict__") and not isinstance(leaf, torch.nn.Module) else ()
    if any(isinstance(part, torch.Tensor) for part in pytree.tree_leaves(list(held))):
        raise ProblemError(
            f"{what} tensors in an object of class {type(leaf).__name__}; only tensors by themselves, and those in "
            "lists, tuples, dicts and dataclasses, are seen."
        )
    return leaf


def _flatten(opened: _Opened) -> tuple[list[Any], _OpenedAs]:
    return list(opened.parts.values()), _OpenedAs(opened.whole, tuple(opened.parts))


def _flatten_with_names(opened: _Opened) -> tuple[list[tuple[pytree.KeyEntry, Any]], _OpenedAs]:
    parts, context = _flatten(opened)
    return [(pytree.MappingKey(name), part) for name, part in zip(context.names, parts, strict=True)], context


def _unflatten(parts: Any, context: _OpenedAs) -> Any:  # noqa: ANN401
    made = copy.copy(context.whole)
    for name, part in zip(context.names, parts, strict=True):
        if isinstance(made, MutableMapping):
            made[name] = part
        if dataclasses.is_dataclass(made):
            object.__setattr__(made, name, part)
    return made


pytree.register_pytree_node(_Opened, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_names)
