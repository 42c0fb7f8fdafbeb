"""Draw adversarial inputs: values on which a kernel that is right on ordinary ones fails."""

from __future__ import annotations

import torch

from cutegen_core.records.problem import Values

_LARGE_MEAN = 100.0
_LARGE_SCALE = 1000.0
_DENORMAL_FRACTION = 0.125


def draw_adversarial(tensor: torch.Tensor, values: Values, generator: torch.Generator) -> torch.Tensor:
    """Return one adversarial input with the shape, dtype and device of `tensor`; float16 scales stay in range.

    Random numbers are drawn on the generator's device, whatever torch's default device is.
    """
    dtype, shape, there = tensor.dtype, tensor.shape, generator.device
    large = 60.0 if dtype is torch.float16 else _LARGE_SCALE
    match values:
        case Values.LARGE_MEAN:
            return tensor + torch.tensor(_LARGE_MEAN, dtype=dtype, device=tensor.device)
        case Values.LARGE_SCALE:
            return (torch.randn(shape, generator=generator, device=there) * large).to(tensor)
        case Values.ONE_HOT:
            hot = torch.zeros(shape, dtype=dtype, device=there).reshape(-1, shape[-1] if shape else 1)
            if hot.numel():
                rows, columns = hot.shape
                places = torch.randint(columns, (rows,), generator=generator, device=there)
                hot[torch.arange(rows, device=there), places] = 1
            return hot.reshape(shape).to(tensor)
        case Values.SPARSE:
            kept = torch.rand(shape, generator=generator, device=there) < 0.05
            return torch.where(kept.to(tensor.device), tensor, torch.zeros_like(tensor))
        case _:
            tiny = torch.finfo(dtype).tiny * _DENORMAL_FRACTION
            return (torch.randn(shape, generator=generator, device=there) * tiny).to(tensor)
