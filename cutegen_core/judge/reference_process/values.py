"""The values of a reference's tensors: drawn as a workload says, and as raw files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cutegen_core.judge.reference_process.drawing import drawn
from cutegen_core.judge.reference_process.live import Live, instantiate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import TensorRole, TensorSpec, Values


def made(source: str, origin: str, values: Values, seed: int = 0) -> Live:
    """The reference of that source, with its inputs drawn as the workload says. ProblemError when its code raises."""
    return draw(instantiate(source, origin, seed), values, seed)


def draw(live: Live, values: Values, seed: int) -> Live:
    """The same reference with its floating inputs drawn as the workload says, on their device; parameters stay."""
    names = [n for n, t in live.tensors.items() if live.roles[n] is TensorRole.INPUT and t.is_floating_point()]
    if values is Values.GIVEN or not names:
        return live
    generator = torch.Generator(live.tensors[names[0]].device).manual_seed(seed + 2)
    changed = {name: drawn(live.tensors[name], values, generator) for name in names}
    return replace(live, tensors={**live.tensors, **changed})


def to_bytes(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Raw little-endian values in row-major order."""
    array: np.ndarray[Any, np.dtype[np.uint8]] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return array


def write_raw(tensor: torch.Tensor, path: Path) -> None:
    """Writes raw little-endian values; the file is replaced, never changed in place under a reader."""
    partial = path.with_suffix(".part")
    to_bytes(tensor).tofile(partial)
    partial.replace(path)


def read_raw(path: Path, spec: TensorSpec) -> torch.Tensor:
    """The tensor of a raw file; ProblemError when its length is not the spec's."""
    data = np.fromfile(path, dtype=np.uint8)
    if data.size != spec.nbytes:
        raise ProblemError(f"{path.name} holds {data.size} bytes, {spec.name} needs {spec.nbytes}.")
    if not data.size:  # no bytes can be viewed as anything
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
    return torch.from_numpy(data).view(getattr(torch, spec.dtype)).reshape(spec.shape)
