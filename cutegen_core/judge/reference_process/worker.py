"""Answer requests about one problem file: its signature, graph, inputs, expected outputs, sizes and lint.

This runs in the process of the file (`file_process`), whose code can change everything here: what it answers says
something about the file only, and the supervisor and the engine check its form.
"""

from __future__ import annotations

import hashlib
import socket
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from cutegen_core.judge import reference_answers
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
from cutegen_core.judge.reference_process.derived_inputs import Drawn, draw_derived
from cutegen_core.judge.reference_process.derived_values import Basis, are_finite, has_own_specials
from cutegen_core.judge.reference_process.expected import (
    Expected,
    expect,
    find_open_choices,
    run,
    run_rounded,
    with_open_choices,
)  # fmt: skip
from cutegen_core.judge.reference_process.file_process import FileReply, receive_request, send_reply
from cutegen_core.judge.reference_process.forwards import Forward, LongForwardError, WrongForwardError
from cutegen_core.judge.reference_process.loading.known_values import needs_values
from cutegen_core.judge.reference_process.loading.live import Live, describe, dtype_name, instantiate, out_of_memory
from cutegen_core.judge.reference_process.modes.checks import past_checks
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.graph import Graph
from cutegen_core.records.problem import Signature, Tolerance, Values

_KEPT = 4
_HARD = (Values.LARGE_MEAN, Values.LARGE_SCALE)
_SMALL_BYTES = 256 << 20
_SAMPLED_FROM = 1 << 20
_SAMPLED_WORK = 2_000_000
_SAMPLED_ELEMENTS = 4096
MOST_SAMPLES = 32


def set_up_torch() -> None:
    """Switch gradients and torch's pool of threads off, once in a process.

    The work is small, sums must not depend on the number of processors, and a fork has no threads.
    """
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)


def serve_file(channel: socket.socket) -> None:
    """Answer requests until the channel is closed."""
    handler = ReferenceHandler()
    while True:
        request = receive_request(channel)
        send_reply(channel, request["nonce"], handler.handle(request))


class ReferenceHandler:
    """Answers requests; keeps the last few instantiated references, because instantiating takes most of the time."""

    def __init__(self) -> None:
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        self._kept: OrderedDict[tuple[str, int, str, bool], Drawn] = OrderedDict()

    def handle(self, request: Message) -> FileReply:
        """Answer one request; a fault of the file or of the machine is also an answer."""
        try:
            if "traced" in request:
                tracing.remember(request["source"], request["origin"], lambda: _read_graph(request))
            answer: FileReply = getattr(self, f"_{request['operation']}")(request)
            return answer
        except ProblemError as error:
            return FileReply({"problem": str(error)})
        except Exception as error:  # noqa: BLE001 - the worker boundary
            if isinstance(error, RecursionError) or out_of_memory(error):
                return FileReply({"problem": describe(error, request["origin"])})
            return FileReply({"machine": f"the reference worker failed: {type(error).__name__}: {error}"})

    def _signature(self, request: Message) -> FileReply:
        return FileReply({"signature": asdict(trace_signature(request["source"], request["origin"]))})

    def _graph(self, request: Message) -> FileReply:
        return FileReply({"graph": asdict(tracing.trace(request["source"], request["origin"]))})

    def _inputs(self, request: Message) -> FileReply:
        live = self._drawn(request).live
        tensors = [_describe(tensor) | {"name": name} for name, tensor in live.tensors.items()]
        return FileReply({"digest": _digest(live), "tensors": tensors}, _frames(live.tensors.values()))

    def _expected(self, request: Message) -> FileReply:
        """Return the expected outputs, and those of further seeds, which show the reference's own error."""
        drawn = self._drawn(request)
        live = drawn.live
        if request["digest"] and _digest(live) != request["digest"]:
            raise ProblemError(
                f"{live.origin}: get_inputs or Model gives other values under the same seed, so a result cannot be "
                f"judged; draw them with torch's or numpy's global generator."
            )
        if request["derived"]:
            return _expect_derived(request, drawn)
        first = with_open_choices(live, expect(live))
        every = [first, *(_sample(request, live, first) if request["samples"] else ())]
        frames = [frame for one in every for frame in _frames(_tensors_of(one))]
        return FileReply({"expected": [_describe_expected(one) for one in every]}, frames)

    def _lint(self, request: Message) -> FileReply:
        tolerance = {output: Tolerance(**t) for output, t in request["tolerance"].items()}
        facts = lint_facts.gather(
            request["source"], request["origin"], Values(request["values"]), relaxed=bool(request["allow"])
        )
        usable = [v.value for v in _HARD if _is_usable(request["source"], request["origin"], v)]
        findings = [found._asdict() for found in lint_runs.check_facts(facts, tolerance)]
        return FileReply({"findings": findings, "usable": usable})

    def _input_facts(self, request: Message) -> FileReply:
        facts = input_facts.input_facts(request["source"], request["origin"])
        return FileReply({"facts": {name: asdict(fact) for name, fact in facts.items()}})

    def _place_facts(self, request: Message) -> FileReply:
        return FileReply({"places": input_facts.place_facts(request["source"], request["origin"])})

    def _find_derived(self, request: Message) -> FileReply:
        """Tell on which other values a kernel can be judged, and why not on the rest."""
        found = derived_values.find_derived(request["source"], request["origin"], finite=request["finite"])
        return FileReply({"derived": [[kind.value, doubt] for kind, doubt in found]})

    def _find_full_sizes(self, request: Message) -> FileReply:
        sizes = {name: tuple(v) if isinstance(v, list) else v for name, v in request["sizes"].items()}
        found = full_sizes.find_full_sizes(
            request["source"], request["origin"], sizes, _TorchProbe(), request["varied"]
        )
        return FileReply({"ladders": [[asdict(run) for run in ladder] for ladder in found]})

    def _derive(self, request: Message) -> FileReply:
        probe = _TorchProbe()
        workloads = reduction.derive(request["source"], request["origin"], probe, on_gpu=request["on_gpu"])
        return FileReply({"workloads": [asdict(workload) for workload in workloads]})

    def _drawn(self, request: Message) -> Drawn:
        key = (request["source"], request["seed"], request["values"], request["derived"])
        if key not in self._kept:
            self._kept[key] = _draw(request, request["seed"])
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


def _read_graph(request: Message) -> Graph:
    return reference_answers.read_answer(request["traced"], request["origin"], reference_answers.graph)


def trace_signature(source: str, origin: str) -> Signature:
    """Trace the signature on fake tensors; a forward that needs values is run for real if its inputs are small.

    Raises:
        ProblemError: neither run gives tensors.
    """
    with tracing.fake_tensors():
        live = instantiate(source, origin)
        try:
            return past_checks(lambda: tracing.signature_of(live), origin)
        except ProblemError as error:
            size = sum(spec.nbytes for spec in live.specs())
            if not needs_values(error):
                raise
            if size > _SMALL_BYTES:
                what = f"with {size / (1 << 30):.1f} GiB of inputs, traced without values"
                raise ProblemError(f"{error} ({what})") from error
    return tracing.signature_of(instantiate(source, origin))


class _TorchProbe:
    """Runs reduced sources for `reduction`."""

    def forward(self, source: str, origin: str) -> Forward:
        with tracing.fake_tensors():
            live = instantiate(source, origin)
            try:
                return past_checks(lambda: tracing.forward_of(live), origin)
            except LongForwardError:
                raise
            except ProblemError as error:
                if not needs_values(error):
                    raise WrongForwardError(str(error)) from error
                if sum(spec.nbytes for spec in live.specs()) > _SMALL_BYTES:
                    raise
        # a forward that needs values cannot be counted on fake tensors; its inputs are small, so run it
        return tracing.forward_of(instantiate(source, origin))

    def run(self, source: str, origin: str, drawn: Values) -> None:
        live = values.instantiate_drawn(source, origin, drawn)
        try:
            outputs = run(live, {name: t.clone() for name, t in live.tensors.items()})
        except Exception as error:
            raise ProblemError(describe(error, origin)) from error
        if not (are_finite(outputs) or _has_own_specials(live)):
            raise ProblemError(f"{origin}: gives NaN or Inf on {drawn.value} inputs.")

    def leaves_open(self, source: str, origin: str, drawn: Values) -> bool:
        live = values.instantiate_drawn(source, origin, drawn)
        try:
            return find_open_choices(live, expect(live)) is not None
        except Exception as error:
            raise ProblemError(describe(error, origin)) from error


def _has_own_specials(live: Live) -> bool:
    exact = expect(live).exact
    return exact is not None and has_own_specials(live, exact)


def _is_usable(source: str, origin: str, drawn: Values) -> bool:
    """Return whether the reference is defined on such inputs."""
    try:
        _TorchProbe().run(source, origin, drawn)
    except ProblemError:
        return False
    return True


def _draw(request: Message, seed: int) -> Drawn:
    if request["derived"]:
        return draw_derived(request["source"], request["origin"], Values(request["values"]), seed)
    return Drawn(values.instantiate_drawn(request["source"], request["origin"], Values(request["values"]), seed), ())


def _sample(request: Message, live: Live, expected: Expected) -> Iterator[Expected]:
    """Yield the expected outputs at further seeds.

    A small output gets many: a few elements say little about the reference's accuracy. Where all of an output cancels
    to zero, one more shows what a rounding on the way leaves there.
    """
    outputs = sum(t.numel() for t in expected.declared)
    work = sum(t.numel() for t in live.tensors.values()) + outputs
    seeds = min(_SAMPLED_ELEMENTS // max(outputs, 1), _SAMPLED_WORK // max(work, 1), MOST_SAMPLES - 1)
    if expected.exact is None:
        return
    for k in range(seeds):
        yield expect(_draw(request, _SAMPLED_FROM + k).live)
    if any(t.is_floating_point() and t.numel() and not t.any() for t in expected.exact):
        yield Expected(run_rounded(live, live.tensors, _SAMPLED_FROM), expected.exact)


def _expect_derived(request: Message, drawn: Drawn) -> FileReply:
    """Return the expected outputs with what they are judged by; none if these very values say nothing.

    That is so, too, where the reference fails on them: with others of this kind it ran.
    """
    try:
        expected = expect(drawn.live)
        bases = derived_values.find_basis(drawn, expected, Values(request["values"]), request["source"])
    except ProblemError:
        return FileReply({"expected": []})
    if isinstance(bases, str):
        return FileReply({"expected": []})
    others = [np.ascontiguousarray(other, np.float64) for basis in bases for other in basis.others]
    frames = [*_frames(_tensors_of(expected)), *(o.reshape(-1).view(np.uint8) for o in others)]
    return FileReply({"expected": [_describe_expected(expected)], "bases": [_describe_basis(b) for b in bases]}, frames)


def _describe_basis(basis: Basis) -> Message:
    precision = basis.precision and asdict(basis.precision)
    return {"precision": precision, "others": len(basis.others), "doubt": basis.doubt}


def _describe_expected(expected: Expected) -> Message:
    exact = None if expected.exact is None else [_describe(tensor) for tensor in expected.exact]
    others = [list(map(_describe, outputs)) for outputs in expected.others]
    return {
        "declared": list(map(_describe, expected.declared)), "exact": exact, "why": expected.why, "others": others,
        "longest_sum": expected.longest_sum,
    }  # fmt: skip


def _tensors_of(expected: Expected) -> Iterator[torch.Tensor]:
    """Yield all tensors, in the order in which they are described."""
    yield from expected.declared
    yield from expected.exact or ()
    for outputs in expected.others:
        yield from outputs


def _describe(tensor: torch.Tensor) -> Message:
    return {"dtype": dtype_name(tensor), "shape": list(tensor.shape)}


def _frames(tensors: Iterable[torch.Tensor]) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    return [values.to_bytes(tensor) for tensor in tensors]


def _digest(live: Live) -> str:
    digest = hashlib.sha256()
    for tensor in live.tensors.values():
        digest.update(values.to_bytes(tensor).data)
    return digest.hexdigest()
