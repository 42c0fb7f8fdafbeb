"""What the reference answers, at the declared precision and in float64.

Expected values are the reference on float64 copies of all floating tensors, with float64 as the default type; where
the file cannot run like that they are computed at the declared precision, and the lint says so. TF32 and
reduced-precision reductions are off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cutegen_core.errors import ProblemError
from cutegen_core.judge import values
from cutegen_core.judge.values import Live


@dataclass(frozen=True)
class Expected:
    """What the reference answers.

    Attributes:
        declared: outputs at the declared precision.
        exact: the same in float64, None where the file cannot run in it; `why` says so.
    """

    declared: tuple[torch.Tensor, ...]
    exact: tuple[torch.Tensor, ...] | None
    why: str = ""


def expect(live: Live) -> Expected:
    """Runs the reference twice: as declared, and on float64 copies with float64 as the default type and in place of
    every narrower type that it converts to."""
    try:
        declared = run(live, {name: t.clone() for name, t in live.tensors.items()})
    except Exception as error:
        raise ProblemError(values.describe(error, live.origin)) from error
    try:
        torch.set_default_dtype(torch.float64)
        with values.Exact():
            exact = run(live, {name: values.upcast(t) for name, t in live.tensors.items()})
    except Exception as error:  # noqa: BLE001 - the file may insist on its precision; lint says so
        return Expected(declared, None, values.describe(error, live.origin))
    finally:
        torch.set_default_dtype(torch.float32)
    if [t.shape for t in exact] != [t.shape for t in declared]:
        return Expected(declared, None, "its shapes depend on the precision")
    return Expected(declared, exact)


def run(live: Live, tensors: dict[str, torch.Tensor], seed: int = 0) -> tuple[torch.Tensor, ...]:
    """One call on these tensors; what the file's code raises comes as it is."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return tuple(t.detach().contiguous() for t in live.call(tensors))


def array(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """For comparisons: floats as float64, anything else as it is."""
    array: np.ndarray[Any, np.dtype[Any]] = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return array
