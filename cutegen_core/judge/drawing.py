"""Adversarial inputs: values at which a kernel that is right on ordinary ones goes wrong."""

from __future__ import annotations

import torch

from cutegen_core.problem import Values

_LARGE_MEAN = 100.0
_LARGE_SCALE = 1000.0
_DENORMAL_FRACTION = 0.125


def drawn(tensor: torch.Tensor, values: Values, generator: torch.Generator) -> torch.Tensor:
    """One adversarial input. Shapes and dtypes stay; float16 scales stay in its range."""
    dtype = tensor.dtype
    large = 60.0 if dtype is torch.float16 else _LARGE_SCALE
    match values:
        case Values.LARGE_MEAN:
            return tensor + torch.tensor(_LARGE_MEAN, dtype=dtype)
        case Values.LARGE_SCALE:
            return (torch.randn(tensor.shape, generator=generator) * large).to(dtype)
        case Values.ONE_HOT:
            hot = torch.zeros(tensor.shape, dtype=dtype).reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
            if hot.numel():
                hot[torch.arange(hot.shape[0]), torch.randint(hot.shape[1], (hot.shape[0],), generator=generator)] = 1
            return hot.reshape(tensor.shape)
        case Values.SPARSE:
            return torch.where(torch.rand(tensor.shape, generator=generator) < 0.05, tensor, torch.zeros_like(tensor))
        case _:
            tiny = torch.finfo(dtype).tiny * _DENORMAL_FRACTION
            return (torch.randn(tensor.shape, generator=generator) * tiny).to(dtype)
