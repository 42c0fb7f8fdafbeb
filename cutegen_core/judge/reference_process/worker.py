"""OutputValues the requests of the reference worker: signature, graph, inputs, compare, lint and derive.

`reference_process.main` starts it inside the sandbox.
"""

from __future__ import annotations

import functools
import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from cutegen_core.judge import correctness
from cutegen_core.judge.correctness import OutputValues, Precision
from cutegen_core.judge.reference_process import (
    derived_values,
    full_sizes,
    input_facts,
    lint_facts,
    lint_runs,
    reduction,
    tracing,
    values,
)
from cutegen_core.judge.reference_process.expected import Expected, expect, run, to_array
from cutegen_core.judge.reference_process.live import Live, describe, instantiate, out_of_memory
from cutegen_core.judge.reference_process.reduction import Cost
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec, Tolerance, Values

_KEPT = 4
_HARD = (Values.LARGE_MEAN, Values.LARGE_SCALE)
_SMALL_BYTES = 256 << 20
_SAMPLED_FROM = 1 << 20
_SAMPLED_WORK = 2_000_000
_SAMPLED_ELEMENTS = 4096
_SAMPLED_SEEDS = 31


class ReferenceHandler:
    """Answers requests; keeps the last few instantiated references, because instantiating takes most of the time."""

    def __init__(self) -> None:
        torch.set_grad_enabled(False)
        # the work is small, and sums must not depend on the number of processors
        torch.set_num_threads(1)
        self._samples: dict[tuple[str, str], tuple[tuple[Precision, ...], ...]] = {}
        self._lives: OrderedDict[tuple[str, int, str, bool], Live] = OrderedDict()

    def handle(self, request: Message) -> Message:
        """OutputValues one request; a fault of the file or of the machine is also an answer."""
        try:
            answer: Message = getattr(self, f"_{request['operation']}")(request)
            return answer
        except ProblemError as error:
            return {"problem": str(error)}
        except Exception as error:  # noqa: BLE001 - the worker boundary
            if isinstance(error, RecursionError) or out_of_memory(error):
                return {"problem": describe(error, request["origin"])}
            return {"machine": f"the reference worker failed: {type(error).__name__}: {error}"}

    def _signature(self, request: Message) -> Message:
        return {"signature": asdict(trace_signature(request["source"], request["origin"]))}

    def _graph(self, request: Message) -> Message:
        return {"graph": asdict(tracing.trace(request["source"], request["origin"]))}

    def _inputs(self, request: Message) -> Message:
        live = self._live(request)
        for name, tensor in live.tensors.items():
            values.write_raw(tensor, Path(request["folder"]) / f"{name}.bin")
        return {"digest": _digest(live)}

    def _compare(self, request: Message) -> Message:
        live = self._live(request)
        if request["digest"] and _digest(live) != request["digest"]:
            raise ProblemError(
                f"{live.origin}: get_inputs or Model gives other values under the same seed, so a result cannot be "
                f"judged; draw them with torch's or numpy's global generator."
            )
        expected = expect(live)
        if request["derived"]:
            return _compare_derived(request, expected)
        precision = self._precision(request, live, expected)
        comparisons = [
            correctness.compare(spec.name, spec.dtype, tolerance, answer, precision[k] if precision else None)
            for k, (spec, tolerance, answer) in enumerate(
                _pair_outputs(request["outputs"], expected, request["poison"])
            )
        ]
        return {"comparisons": [asdict(replace(c, no_float64=expected.why)) for c in comparisons]}

    def _precision(self, request: Message, live: Live, expected: Expected) -> tuple[Precision, ...]:
        """Return own error and scale per output, over this seed and a few fixed ones; empty without float64 values."""
        found = _measure_outputs(expected)
        key = (request["source"], request["values"])
        if found and key not in self._samples:
            self._samples[key] = _sample_precisions(request, live, expected)
        return tuple(_merge(one, self._samples[key][k]) for k, one in enumerate(found))

    def _lint(self, request: Message) -> Message:
        tolerance = {dtype: Tolerance(**t) for dtype, t in request["tolerance"].items()}
        facts = lint_facts.gather(
            request["source"], request["origin"], Values(request["values"]), relaxed=bool(request["allow"])
        )
        usable = [v.value for v in _HARD if _is_usable(request["source"], request["origin"], v)]
        return {"findings": [found._asdict() for found in lint_runs.check_facts(facts, tolerance)], "usable": usable}

    def _input_facts(self, request: Message) -> Message:
        facts = input_facts.input_facts(request["source"], request["origin"])
        return {"facts": {name: asdict(fact) for name, fact in facts.items()}}

    def _find_derived(self, request: Message) -> Message:
        """Tell on which other values a kernel can be judged, and why not on the rest."""
        found = derived_values.find_derived(request["source"], request["origin"], finite=request["finite"])
        return {"derived": [[kind.value, doubt] for kind, doubt in found]}

    def _find_full_sizes(self, request: Message) -> Message:
        sizes = {name: tuple(v) if isinstance(v, list) else v for name, v in request["sizes"].items()}
        found = full_sizes.find_full_sizes(request["source"], request["origin"], sizes, _TorchProbe())
        return {"ladders": [[asdict(run) for run in ladder] for ladder in found]}

    def _derive(self, request: Message) -> Message:
        return {"workloads": [asdict(w) for w in reduction.derive(request["source"], request["origin"], _TorchProbe())]}

    def _live(self, request: Message) -> Live:
        key = (request["source"], request["seed"], request["values"], request["derived"])
        if key not in self._lives:
            self._lives[key] = _instantiate(request, request["seed"])
        self._lives.move_to_end(key)
        while len(self._lives) > _KEPT:
            self._lives.popitem(last=False)
        return self._lives[key]


def trace_signature(source: str, origin: str) -> Signature:
    """Trace the signature on fake tensors; a forward that needs values is run for real if its inputs are small."""
    with tracing.fake_tensors():
        live = instantiate(source, origin)
        try:
            return tracing.signature_of(live)
        except ProblemError as error:
            size = sum(spec.nbytes for spec in live.specs())
            if not tracing.needs_values(error):
                raise
            if size > _SMALL_BYTES:
                what = f"with {size / (1 << 30):.1f} GiB of inputs, traced without values"
                raise ProblemError(f"{error} ({what})") from error
    return tracing.signature_of(instantiate(source, origin))


class _TorchProbe:
    """Runs reduced sources for `reduction`."""

    def cost(self, source: str, origin: str) -> Cost:
        with tracing.fake_tensors():
            live = instantiate(source, origin)
            try:
                return tracing.cost_of(live)
            except ProblemError as error:
                if not tracing.needs_values(error) or sum(spec.nbytes for spec in live.specs()) > _SMALL_BYTES:
                    raise
        # a forward that needs values cannot be counted on fake tensors; its inputs are small, so run it
        return tracing.cost_of(instantiate(source, origin))

    def run(self, source: str, origin: str, drawn: Values) -> None:
        live = values.instantiate_drawn(source, origin, drawn)
        try:
            outputs = run(live, {name: t.clone() for name, t in live.tensors.items()})
        except Exception as error:
            raise ProblemError(describe(error, origin)) from error
        for output in outputs:
            if output.is_floating_point() and not bool(torch.isfinite(output).all()):
                raise ProblemError(f"{origin}: gives NaN or Inf on {drawn.value} inputs.")


def _is_usable(source: str, origin: str, drawn: Values) -> bool:
    """Return whether the reference is defined on such inputs."""
    try:
        _TorchProbe().run(source, origin, drawn)
    except ProblemError:
        return False
    return True


def _compare_derived(request: Message, expected: Expected) -> Message:
    """Judge the outputs on derived values; without comparisons if these very values turn out to say nothing."""
    kind = Values(request["values"])
    drawn = derived_values.draw_derived(request["source"], request["origin"], kind, request["seed"])
    bases = derived_values.find_basis(drawn, expected, kind, request["source"])
    if isinstance(bases, str):
        return {"comparisons": []}
    pairs = _pair_outputs(request["outputs"], expected, request["poison"])
    comparisons = [
        correctness.compare(spec.name, spec.dtype, tolerance, replace(answer, others=basis.others), basis.precision)
        for basis, (spec, tolerance, answer) in zip(bases, pairs, strict=True)
    ]
    return {"comparisons": [asdict(comparison) for comparison in comparisons]}


def _instantiate(request: Message, seed: int) -> Live:
    if request["derived"]:
        kind = Values(request["values"])
        return derived_values.draw_derived(request["source"], request["origin"], kind, seed).live
    return values.instantiate_drawn(request["source"], request["origin"], Values(request["values"]), seed)


def _sample_precisions(request: Message, live: Live, expected: Expected) -> tuple[tuple[Precision, ...], ...]:
    """Return the precision of each output at further seeds.

    A small output gets many: a few elements say little about the reference's accuracy.
    """
    outputs = sum(t.numel() for t in expected.declared)
    work = sum(t.numel() for t in live.tensors.values()) + outputs
    seeds = min(_SAMPLED_ELEMENTS // max(outputs, 1), _SAMPLED_WORK // max(work, 1), _SAMPLED_SEEDS)
    samples = [_measure_outputs(expect(_instantiate(request, _SAMPLED_FROM + k))) for k in range(seeds)]
    return tuple(tuple(s[k] for s in samples if s) for k in range(len(expected.declared)))


def _merge(first: Precision, others: tuple[Precision, ...]) -> Precision:
    return functools.reduce(Precision.merge, others, first)


def _measure_outputs(expected: Expected) -> tuple[Precision, ...]:
    if expected.exact is None:
        return ()
    pairs = zip(expected.exact, expected.declared, strict=True)
    return tuple(correctness.measure(to_array(exact), to_array(declared)) for exact, declared in pairs)


def _pair_outputs(
    outputs: Sequence[Message], expected: Expected, poison: int
) -> Iterator[tuple[TensorSpec, Tolerance, OutputValues]]:
    """Yield each output of the kernel together with its expected values."""
    for position, output in enumerate(outputs):
        spec = TensorSpec(output["name"], output["dtype"], tuple(output["shape"]), TensorRole.OUTPUT)
        declared = expected.declared[position]
        if tuple(declared.shape) != spec.shape:
            raise ProblemError(f"{spec.name} is {spec.shape}, but the reference gives {tuple(declared.shape)}.")
        got = values.read_raw(Path(output["path"]), spec)
        raw = values.to_bytes(got).reshape(-1, spec.itemsize)
        answer = OutputValues(
            got=to_array(got),
            want=to_array(expected.exact[position] if expected.exact is not None else declared),
            declared=to_array(declared) if expected.exact is not None else None,
            poison=(raw == poison).all(axis=1).reshape(spec.shape),
        )
        yield spec, Tolerance(output["atol"], output["rtol"], output["error_multiple"]), answer


def _digest(live: Live) -> str:
    digest = hashlib.sha256()
    for tensor in live.tensors.values():
        digest.update(values.to_bytes(tensor).tobytes())
    return digest.hexdigest()
