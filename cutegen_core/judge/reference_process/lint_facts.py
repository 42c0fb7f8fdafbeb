"""Run a reference in the ways that show whether its problem can be trusted; `lint_runs` draws the conclusions."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from cutegen_core.judge.reference_process import values
from cutegen_core.judge.reference_process.derived_values import has_own_specials
from cutegen_core.judge.reference_process.drawing import widen
from cutegen_core.judge.reference_process.expected import Expected, expect, find_open_choices, run, to_array
from cutegen_core.judge.reference_process.lint_runs import Array, Facts, ObservedInput, ObservedOutput
from cutegen_core.judge.reference_process.loading.live import Live, describe, dtype_name
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import TensorRole, Values

_COARSER = {
    torch.float64: torch.float32, torch.float32: torch.bfloat16,
    torch.float16: torch.float8_e4m3fn, torch.bfloat16: torch.float8_e4m3fn,
}  # fmt: skip
Outputs = tuple[torch.Tensor, ...]


def gather(source: str, origin: str, drawn: Values, *, relaxed: bool) -> Facts:
    """Collect all facts that the lint needs about one small workload.

    Raises:
        ProblemError: the reference fails.
    """

    def instantiate(seed: int = 0) -> Live:
        return values.instantiate_drawn(source, origin, drawn, seed)

    live, second = instantiate(), instantiate(seed=1)
    given, passed = _clone_all(live.tensors), _clone_all(live.tensors)
    declared = _call(live, passed)
    changed = {name for name, tensor in passed.items() if not _equal(tensor, given[name])}
    twice = _call(live, _clone_all(given))
    fresh = _call(instantiate(), _clone_all(given))
    reseeded = _call(instantiate(), _clone_all(given), seed=1)
    again = instantiate().tensors
    expected = expect(instantiate())
    other = expect(second)
    names = ((type(module).__name__, module.training) for module in live.model.modules())
    layers = frozenset(name for name, training in names if training or "Dropout" in name)
    tries = _Tries(live, given, second)
    outputs = tuple(
        _output(position, (declared, twice, fresh, reseeded), expected, other, tries)
        for position in range(len(declared))
    )
    inputs = tuple(
        ObservedInput(
            name, live.roles[name] is TensorRole.INPUT,
            to_array(tensor), to_array(second.tensors[name]), to_array(again[name]),
            name in changed and live.roles[name] is not TensorRole.BUFFER,
        )
        for name, tensor in given.items()
    )  # fmt: skip
    left_open = find_open_choices(instantiate(), expected)
    own_specials = expected.exact is not None and has_own_specials(instantiate(), expected.exact)
    return Facts(inputs, outputs, layers, expected.why, relaxed, left_open.what if left_open else "", own_specials)


class _Tries:
    """Outputs of the reference on altered inputs; each run gives all outputs."""

    def __init__(self, live: Live, given: Mapping[str, torch.Tensor], second: Live) -> None:
        self.without = {
            name: _call(live, _clone_all({**given, name: second.tensors[name]}))
            for name in given
            if second.tensors[name].shape == given[name].shape
        }
        self.rounded = _call(live, {name: _coarse(tensor) for name, tensor in given.items()})


def _output(
    position: int, runs: tuple[Outputs, ...], expected: Expected, other: Expected, tries: _Tries
) -> ObservedOutput:
    declared, twice, fresh, reseeded = (to_array(each[position]) for each in runs)
    tensor = runs[0][position]
    exact = expected.exact if expected.exact is not None else expected.declared
    without = {name: to_array(outputs[position]) for name, outputs in tries.without.items()}
    return ObservedOutput(
        name="out" if len(runs[0]) == 1 else f"out{position}",
        dtype=dtype_name(tensor),
        want=to_array(exact[position]), declared=declared, twice=twice, fresh=fresh, reseeded=reseeded,
        other=_other(other, position), rounded=_rounded(tensor, tries.rounded[position]), without=without,
    )  # fmt: skip


def _other(other: Expected, position: int) -> Array:
    return to_array((other.exact if other.exact is not None else other.declared)[position])


def _rounded(tensor: torch.Tensor, rounded: torch.Tensor) -> Array | None:
    """Return the output on rounded inputs, or None if rounding loses nothing (integers, 0 and 1)."""
    coarser = _COARSER.get(tensor.dtype)
    return None if coarser is None or _equal(tensor.to(coarser).to(tensor.dtype), tensor) else to_array(rounded)


def _coarse(tensor: torch.Tensor) -> torch.Tensor:
    coarser = _COARSER.get(tensor.dtype)
    return tensor.clone() if coarser is None else tensor.to(coarser).to(tensor.dtype)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(torch.equal(*(torch.nan_to_num(widen(tensor)) for tensor in (left, right))))


def _clone_all(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _call(live: Live, tensors: dict[str, torch.Tensor], seed: int = 0) -> Outputs:
    try:
        return tuple(output.clone() for output in run(live, tensors, seed))
    except Exception as error:
        raise ProblemError(describe(error, live.origin)) from error
