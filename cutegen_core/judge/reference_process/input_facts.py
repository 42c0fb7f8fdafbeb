"""Find properties that a reference's input values always have, so that the roofline counts no work that may be skipped.

Examples: a triangular, diagonal or symmetric matrix drawn by `get_inputs`, a mask of zeros and ones, an input that
changes nothing or repeats another one. The traced graph shows none of these. They are detected at a small workload
under two seeds; a property detected by chance only lowers a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from cutegen_core.judge.reference_process.drawing import widen
from cutegen_core.judge.reference_process.loading.live import Live, describe, instantiate, seed_torch
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import InputFacts
from cutegen_core.records.problem import TensorRole

_RARE = 64
_DEVIATIONS = 4
"""How many standard deviations another seed's count of different numbers may lie below the lowest one seen."""


def input_facts(source: str, origin: str) -> dict[str, InputFacts]:
    """Return the facts by input name.

    Args:
        source: with the sizes of a small workload that is larger than 1 in every direction.

    Raises:
        ProblemError: the reference fails.
    """
    first, second = instantiate(source, origin, 0), instantiate(source, origin, 1)
    if {n: t.shape for n, t in first.tensors.items()} != {n: t.shape for n, t in second.tensors.items()}:
        return {}
    base = _outputs(first, first.tensors)
    facts: dict[str, InputFacts] = {}
    for name, tensor in first.tensors.items():
        pair = (widen(tensor), widen(second.tensors[name]))
        other = _outputs(first, {**first.tensors, name: second.tensors[name]})
        again = any(_repeats(pair, (widen(first.tensors[n]), widen(second.tensors[n]))) for n in facts)
        nonzero = _nonzero(pair)
        facts[name] = InputFacts(
            nonzero=nonzero,
            symmetric=all(_symmetric(t) for t in pair),
            sparse=not nonzero and any(_sparse(t) for t in pair),
            matters=not again and not _same(base, other),
        )
    return facts


def place_facts(source: str, origin: str) -> dict[str, dict[str, int]]:
    """Return, by name of an input of whole numbers, how many of them differ at least, the first and the last one.

    Changing one of n numbers drawn one by one changes the count by at most one, so its variance is at most n / 4.

    Args:
        source: with the sizes of the workload in question, a benchmark's too.

    Raises:
        ProblemError: the file's code raised.
    """
    first, second = instantiate(source, origin, 0), instantiate(source, origin, 1)
    found: dict[str, dict[str, int]] = {}
    for name, tensor in first.tensors.items():
        other, wanted = second.tensors[name], first.roles[name] is TensorRole.INPUT
        if not wanted or tensor.is_floating_point() or tensor.dtype is torch.bool or not tensor.numel():
            continue
        counts = [1 + int((t.reshape(-1).sort().values.diff() != 0).sum()) for t in (tensor, other)]
        spread = 0 if counts[0] == counts[1] else math.ceil(_DEVIATIONS * math.sqrt(tensor.numel()) / 2)
        ends = {
            end: int(tensor.reshape(-1)[at]) if tensor.reshape(-1)[at] == other.reshape(-1)[at] else -1
            for end, at in (("first", 0), ("last", -1))
        }
        found[name] = {"distinct": max(1, min(counts) - spread), **ends}
    return found


def _outputs(live: Live, tensors: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    seed_torch(0)
    try:
        return live.call({name: tensor.clone() for name, tensor in tensors.items()})
    except Exception as error:
        raise ProblemError(describe(error, live.origin)) from error


def _same(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(a.shape == b.shape and torch.equal(_bits(a), _bits(b)) for a, b in pairs)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values with NaN replaced by one number, so that NaN equals NaN."""
    return torch.nan_to_num(tensor.double(), nan=1.5e300) if tensor.is_floating_point() else tensor


def _nonzero(pair: tuple[torch.Tensor, torch.Tensor]) -> str:
    if any(t.dim() < 2 or min(t.shape[-2:]) < 2 or not bool(t.count_nonzero()) for t in pair):
        return ""
    upper = all(bool((t.triu() == t).all()) for t in pair)
    lower = all(bool((t.tril() == t).all()) for t in pair)
    return "diagonal" if upper and lower else "upper" if upper else "lower" if lower else ""


def _sparse(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.bool or int((tensor == 0).sum()) > max(1, tensor.numel() // _RARE)


def _repeats(pair: tuple[torch.Tensor, torch.Tensor], earlier: tuple[torch.Tensor, torch.Tensor]) -> bool:
    """Return whether the input equals an earlier one, under both seeds."""
    return all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(pair, earlier, strict=True)
    )


def _symmetric(tensor: torch.Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    return bool((tensor == tensor.transpose(-1, -2)).all())
