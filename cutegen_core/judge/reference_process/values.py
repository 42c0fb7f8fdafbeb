"""Draw the values of a reference's tensors as a workload describes, and store them as raw files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cutegen_core.judge.reference_process.drawing import draw_adversarial, draw_special, draw_whole
from cutegen_core.judge.reference_process.loading.live import Live, instantiate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import SPECIAL_VALUES, WHOLE_VALUES, TensorRole, TensorSpec, Values


def instantiate_drawn(source: str, origin: str, values: Values, seed: int = 0) -> Live:
    """Instantiate a reference with inputs drawn from this distribution.

    Raises:
        ProblemError: the file's code raised.
    """
    return redraw(instantiate(source, origin, seed), values, seed)


def redraw(live: Live, values: Values, seed: int) -> Live:
    """Return the reference with its inputs redrawn, on their device; parameters stay, unless the values are theirs."""
    whole, role = values in WHOLE_VALUES, TensorRole.PARAMETER if values is Values.PARAMETERS else TensorRole.INPUT
    inputs = {n: t for n, t in live.tensors.items() if live.roles[n] is role}
    inputs = {n: t for n, t in inputs.items() if t.is_floating_point() is not whole and t.numel()}
    if values is Values.GIVEN or not inputs:
        return live
    generator = torch.Generator(next(iter(inputs.values())).device).manual_seed(seed + 2)
    draw = draw_whole if whole else draw_special if values in SPECIAL_VALUES else draw_adversarial
    changed = {name: draw(tensor, values, generator) for name, tensor in inputs.items()}
    return replace(live, tensors={**live.tensors, **changed})


def to_bytes(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the raw little-endian values in row-major order."""
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() <= 1:  # any stride of a single element is contiguous, but torch does not show its bytes then
        flat = flat.clone(memory_format=torch.contiguous_format)
    array: np.ndarray[Any, np.dtype[np.uint8]] = flat.view(torch.uint8).numpy()
    return array


def write_raw(tensor: torch.Tensor, path: Path) -> None:
    """Write raw little-endian values; replace the file as a whole, because another process may be reading it."""
    partial = path.with_suffix(".part")
    to_bytes(tensor).tofile(partial)
    partial.replace(path)


def read_raw(path: Path, spec: TensorSpec) -> torch.Tensor:
    """Return the tensor of a raw file.

    Raises:
        ProblemError: the file's length does not fit the spec.
    """
    data = np.fromfile(path, dtype=np.uint8)
    if data.size != spec.nbytes:
        raise ProblemError(f"{path.name} holds {data.size} bytes, {spec.name} needs {spec.nbytes}.")
    return from_raw(data, spec)


def from_raw(data: bytearray | np.ndarray[Any, np.dtype[np.uint8]], spec: TensorSpec) -> torch.Tensor:
    """Return the tensor of these raw bytes, which it shares; their number must fit the spec."""
    dtype = getattr(torch, spec.dtype)
    if not spec.nbytes:  # torch cannot view an empty array as another dtype
        return torch.empty(spec.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(spec.shape)
