"""Judge outputs on the GPU: one set whole, the timed sets at random positions that no other process knows.

The reference runs as in `expected` (as declared and on float64 copies, TF32 off). Its own error is the largest over all
sets, each of which has its own seed. For a timed set, only the values at the positions are kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import Precision
from cutegen_core.judge.gpu import comparison
from cutegen_core.judge.gpu.comparison import Elements, OutputRule, RightElements
from cutegen_core.judge.gpu.sets import BufferSet
from cutegen_core.judge.reference_process.expected import Expected, expect, with_open_choices
from cutegen_core.judge.reference_process.loading.live import Live
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Tolerance
from cutegen_core.records.trial import Comparison

_POSITIONS = 16384


@dataclass(frozen=True)
class JudgedOutput:
    """One output of the contract."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    tolerance: Tolerance


@dataclass(frozen=True)
class _ExpectedSample:
    """Expected values of one output of one timed set, at random positions.

    Attributes:
        positions: flat indices.
        answers: what is right there.
    """

    positions: torch.Tensor
    answers: tuple[RightElements, ...]


@dataclass(frozen=True)
class Slip:
    """A timed output that was wrong at some checked positions."""

    index: int
    output: str
    wrong: int
    looked_at: int
    got: float
    want: float


class Answers:
    """Expected outputs of all sets of one draw."""

    def __init__(self, live: Live, sets: Sequence[BufferSet], outputs: Sequence[JudgedOutput]) -> None:
        self._live, self._sets, self._outputs = live, sets, outputs
        self._samples: dict[tuple[int, str], _ExpectedSample] = {}
        self._precision: dict[str, Precision] = {}
        self._no_float64 = ""
        self._device = next((t.device for t in live.tensors.values()), torch.device("cuda"))
        self._generator = torch.Generator(self._device)
        self._generator.manual_seed(secrets.randbits(62))

    def compare_first(self, poison: int) -> tuple[Comparison, ...]:
        """Judge set 0; every expected value is computed only now, after the candidate ran.

        `no_float64` covers all sets: if float64 failed on one set, that set's timed runs are judged without it.
        """
        for index in range(1, len(self._sets)):
            for output, answers in self._expected_values(index):
                self._samples[index, output.name] = self._sample(answers)
        found = [
            comparison.compare(
                output.name,
                Elements(_flat(self._sets[0].tensors[output.name]), answers),
                output.shape,
                self._rule(output),
                poison,
            )
            for output, answers in self._expected_values(0)
        ]
        torch.cuda.empty_cache()
        return tuple(replace(comparison, no_float64=self._no_float64) for comparison in found)

    def find_slips(self, timed: set[int]) -> list[Slip]:
        """Return the outputs of these sets that are wrong at the kept positions."""
        found = []
        for (index, name), sample in self._samples.items():
            if index not in timed:
                continue
            output = next(o for o in self._outputs if o.name == name)
            got = comparison.at(_flat(self._sets[index].tensors[name]), sample.positions)
            elements = Elements(got, sample.answers)
            wrong = comparison.wrong(elements, self._rule(output))
            count = int(wrong.sum())
            if count:
                at = int(wrong.int().argmax())
                values = float(got[at]), float(elements.want[at])
                found.append(Slip(index, name, count, wrong.numel(), *values))
        return found

    def _expected_values(self, index: int) -> Iterator[tuple[JudgedOutput, tuple[RightElements, ...]]]:
        """Yield what is right of each output of one set, PyTorch's own first; also record the reference's own error."""
        expected = self._run(self._sets[index])
        for position, output in enumerate(self._outputs):
            declared = expected.declared[position]
            if tuple(declared.shape) != output.shape:
                raise ProblemError(f"{output.name} is {output.shape}, but the reference gives {tuple(declared.shape)}.")
            if expected.exact is None:
                yield output, (RightElements(_flat(declared)),)
                continue
            exact = expected.exact[position]
            found = comparison.measure(exact, declared, output.dtype)
            found = correctness.with_sum(found, output.dtype, expected.longest_sum)
            known = self._precision.get(output.name)
            self._precision[output.name] = known.merge(found) if known else found
            others = tuple(_answer(one[position], output) for one in expected.others)
            yield output, (replace(_answer(exact, output), declared=_flat(declared)), *others)

    def _run(self, one: BufferSet) -> Expected:
        torch.backends.cudnn.allow_tf32 = False
        live = replace(self._live, tensors=one.inputs(self._live))
        expected = with_open_choices(live, expect(live))
        self._no_float64 = self._no_float64 or expected.why
        return expected

    def _sample(self, answers: tuple[RightElements, ...]) -> _ExpectedSample:
        total = answers[0].want.numel()
        count = min(_POSITIONS, total)
        positions = torch.randint(max(1, total), (count,), generator=self._generator, device=self._device)
        if count:
            positions[0], positions[-1] = 0, total - 1
        return _ExpectedSample(positions, tuple(one.part(positions) for one in answers))

    def _rule(self, output: JudgedOutput) -> OutputRule:
        return OutputRule(output.dtype, output.tolerance, self._precision.get(output.name))


def parse_outputs(plain: Sequence[Mapping[str, object]]) -> tuple[JudgedOutput, ...]:
    """Read the outputs from the client's JSON."""
    return tuple(
        JudgedOutput(str(o["name"]), str(o["dtype"]), tuple(o["shape"]), Tolerance(**o["tolerance"]))  # type: ignore[arg-type]
        for o in plain
    )


def _answer(values: torch.Tensor, output: JudgedOutput) -> RightElements:
    return RightElements(_flat(values), rows=comparison.row_means(values, output.dtype))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the flat tensor, bools as bytes: a byte that is neither 0 nor 1 is no bool."""
    flat = tensor.reshape(-1)
    return flat.view(torch.uint8) if flat.dtype is torch.bool else flat
