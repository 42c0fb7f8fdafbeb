"""Names by which a kernel file refers to a reference's tensors and numbers.

`forward` arguments keep their names, parameters and buffers get `_` for `.`; a name already taken gets a trailing `_`.
NVRTC takes letters of ASCII only: `größe` is `grose` there, and `α` is `alpha`.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from cutegen_core.records.wording import in_ascii

_RESERVED = frozenset(
    ("out", "sm_count", "smem_max", "warp_size", "arch", "ceil_div", "round_up", "min", "max", "log2")
)


class Names:
    """Hands out identifiers that are valid in a kernel file's expressions, each once."""

    def __init__(self) -> None:
        self._taken = set(_RESERVED)

    def find_free(self, wanted: str) -> str:
        """Return a valid identifier like `wanted` that is not taken yet."""
        name = re.sub(r"\W", "_", in_ascii(wanted), flags=re.ASCII)
        name = f"_{name}" if name[:1].isdigit() or not name else name
        while name in self._taken or keyword.iskeyword(name):
            name += "_"
        return name

    def take(self, wanted: str) -> str:
        """Reserve and return a valid identifier like `wanted`."""
        name = self.find_free(wanted)
        self._taken.add(name)
        return name


def leaf_names(model: torch.nn.Module, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> list[str]:
    """Return a name per leaf: the forward argument's, plus the path inside a list or dict of tensors."""
    bound = inspect.signature(model.forward).bind(*arguments[0], **arguments[1]).arguments
    positional = list(_flat_positional(model, bound))
    paths, _ = pytree.tree_flatten_with_path(arguments)
    names = []
    for path, _leaf in paths:
        keys = [str(getattr(key, "idx", getattr(key, "key", key))) for key in path]
        first = positional[int(keys[1])] if keys[0] == "0" else keys[1]
        names.append("_".join([first, *keys[2:]]))
    return names


def _flat_positional(model: torch.nn.Module, bound: Mapping[str, Any]) -> Iterator[str]:
    parameters = inspect.signature(model.forward).parameters
    for name, value in bound.items():
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            yield from (f"{name}_{i}" for i in range(len(value)))
        else:
            yield name


def module_numbers(model: torch.nn.Module) -> Iterator[tuple[str, int | float | bool]]:
    """Yield the plain numbers of all modules with dotted names; tuples of numbers by position."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_") or name in ("training", "call_super_init", "dump_patches"):
                continue
            dotted = f"{prefix}.{name}" if prefix else name
            if isinstance(value, int | float):
                yield dotted, value
            elif isinstance(value, tuple) and all(isinstance(v, int | float) for v in value):
                yield from ((f"{dotted}.{i}", v) for i, v in enumerate(value))
