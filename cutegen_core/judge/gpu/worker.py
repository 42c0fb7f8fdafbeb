"""Answer the requests of the judge on the GPU; `gpu.main` starts this and puts it into the sandbox.

As *owner*: `prepare` (buffer sets of fresh values), `export` (their descriptors), `compare` (the first set whole; all
expected values are computed here), `check` (timed outputs at random positions), `guards`, `measure` (a round of eager),
`release`. As *compiler*: `adopt` (the owner's inputs), `measure` (a round of torch.compile), `trim`. That process may
start programs, because Triton needs a C compiler, and therefore judges nothing.

Sets keep their addresses from one trial of a workload to the next and only get new values, so captured graphs and
compiled code stay valid.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import torch

from cutegen_core.execute.cuda.driver import Unfinished
from cutegen_core.execute.cuda.measuring import Meter, RoundPlan
from cutegen_core.judge.gpu import baselines, sets
from cutegen_core.judge.gpu.answers import Answers, parse_outputs
from cutegen_core.judge.gpu.baselines import Forward, ReferenceBaseline
from cutegen_core.judge.gpu.sets import BufferSet, Draw
from cutegen_core.judge.reference_process.loading.live import Live, describe, out_of_memory
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import MachineError, ProblemError
from cutegen_core.records.problem import TensorRole, TensorSpec, Values

POISON = 0xFF


class DeviceHandler:
    """Answers requests; holds the sets of one workload at a time.

    Args:
        forward: builds the function to be timed from the reference.
        keeps: keep that function per workload, because building it takes long.

    Attributes:
        sandbox: the sandbox level reached.
    """

    def __init__(self, forward: Callable[[Live], Forward], descriptors: socket.socket, *, keeps: bool = False) -> None:
        torch.set_grad_enabled(False)
        torch.set_default_device("cuda")
        torch.zeros(1)  # creates the context
        self.sandbox = ""
        self._forward, self._descriptors = forward, descriptors
        self._kept: dict[str, tuple[Live, Forward]] | None = {} if keeps else None
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._meter = Meter(self._stream.cuda_stream, torch.cuda.get_device_properties(0).L2_cache_size)
        self._draw: Draw | None = None
        self._live: Live | None = None
        self._specs: tuple[TensorSpec, ...] = ()
        self._sets: list[BufferSet] = []
        self._answers: Answers | None = None
        self._baseline: ReferenceBaseline | None = None

    def handle(self, request: Message) -> Message:
        """Answer one request; a fault of the file or of the machine is also an answer."""
        try:
            answer: Message = getattr(self, f"_{request['operation']}")(request)
            return answer
        except ProblemError as error:
            return {"problem": str(error)}
        except Exception as error:  # noqa: BLE001 - the worker boundary
            if not out_of_memory(error):
                return {"machine": f"the judge on the GPU failed: {type(error).__name__}: {error}"}
        self._release({})  # only here, since the error kept the failed operation's memory alive
        return {"unfit": "the reference needs more memory than is left"}

    def _hello(self, request: Message) -> Message:
        """Answer the first request, once torch is imported and the context exists."""
        return {"sandbox": self.sandbox, "pid": os.getpid(), "torch": torch.__version__}

    # ---- owner

    def _prepare(self, request: Message) -> Message:
        """Draw values into the previous sets if they fit (`kept`), else into new ones."""
        draw, specs = _draw(request), _specs(request)
        self._answers = None
        kept = self._draw is not None and (self._draw.source, self._specs) == (draw.source, specs)
        if not kept:
            self._release({})
            fitting = sets.count_sets(specs, request["sets"], torch.cuda.mem_get_info()[0])
            if not fitting:
                return {"unfit": _explain_unfit(specs)}
            self._sets = [sets.allocate(specs) for _ in range(fitting)]
        self._draw, self._specs = draw, specs
        for index, one in enumerate(self._sets):
            live = sets.instantiate(draw, index)
            sets.write(live, one)
            sets.poison(one, specs, POISON)
            if self._live is None:
                self._live = live
        torch.cuda.synchronize()
        return {"sets": len(self._sets), "kept": kept, "flushed_bytes": self._meter.flush.nbytes}

    def _export(self, request: Message) -> Message:
        """Send one descriptor per tensor of the set; the answer describes how each is mapped."""
        one = self._sets[request["set"]]
        shared = [one.buffers[s.name].share(s.name, output=s.role is TensorRole.OUTPUT) for s in self._specs]
        socket.send_fds(self._descriptors, [b"."], [s.fd for s in shared])
        for each in shared:
            os.close(each.fd)
        return {"layouts": [asdict(each.layout) for each in shared]}

    def _compare(self, request: Message) -> Message:
        """Judge the first set; if memory runs out, keep the sets and free eager's captured graphs."""
        try:
            self._answers = Answers(self._require_live(), self._sets, parse_outputs(request["outputs"]))
            return {"comparisons": [asdict(c) for c in self._answers.compare_first(POISON)]}
        except Exception as error:
            if not out_of_memory(error):
                raise
        self._answers = self._baseline = None
        torch.cuda.empty_cache()
        return {"unfit": "the reference and its float64 copy need more memory than is left"}

    def _check(self, request: Message) -> Message:
        assert self._answers is not None
        return {"slips": [asdict(slip) for slip in self._answers.find_slips(set(request["timed"]))]}

    def _guards(self, request: Message) -> Message:
        """Find overwritten guard bytes around any tensor of any set."""
        found = []
        for index, one in enumerate(self._sets):
            for name, buffer in one.buffers.items():
                damage = buffer.find_damage()
                if damage is not None:
                    found.append({"set": index, "tensor": name, **asdict(damage)})
                    buffer.write_guards()
        return {"damage": found}

    # ---- compiler

    def _adopt(self, request: Message) -> Message:
        """Map the inputs of one set, whose descriptors came before the request; set 0 replaces all sets."""
        specs = _specs(request)
        _, fds, _, _ = socket.recv_fds(self._descriptors, 1, len(specs))
        if request["set"] == 0:
            self._release({})
            self._draw, self._specs = _draw(request), specs
            known = self._kept and self._kept.get(self._draw.source)
            self._live = known[0] if known else sets.instantiate(self._draw)
        self._sets.append(sets.adopt(specs, fds))
        return {}

    # ---- both

    def _measure(self, request: Message) -> Message:
        if self._baseline is None:
            self._baseline = ReferenceBaseline(
                self._forward_of_draw(), self._require_live(), self._sets, request["allow"]
            )
        steps = RoundPlan(tuple(request["order"]), 0, request["warm_runs"])
        try:
            samples = self._baseline.measure(self._meter, self._stream, steps, time.monotonic() + request["seconds"])
        except Unfinished:
            return {"untimed": f"took longer than {request['seconds']:g} s"}
        except MachineError:
            raise
        except Exception as error:  # noqa: BLE001 - the file's forward, or the compiler on it
            if out_of_memory(error):
                return {"untimed": "needs more memory than the buffer sets leave on the GPU"}
            return {"untimed": describe(error, self._require_live().origin)}
        return {"us": list(samples.us), "method": samples.method}

    def _trim(self, request: Message) -> Message:
        """Free the captured graphs' memory; sets and compiled code stay."""
        self._baseline = None
        torch.cuda.empty_cache()
        return {}

    def _release(self, request: Message) -> Message:
        self._baseline = self._answers = self._live = self._draw = None
        for one in self._sets:
            one.free()
        self._sets = []
        torch.cuda.empty_cache()
        return {}

    def _forward_of_draw(self) -> Forward:
        assert self._draw is not None
        live = self._require_live()
        if self._kept is None:
            return self._forward(live)
        if self._draw.source not in self._kept:
            without = {name: tensor.to("meta") for name, tensor in live.tensors.items()}
            self._kept[self._draw.source] = replace(live, tensors=without), self._forward(live)
        return self._kept[self._draw.source][1]

    def _require_live(self) -> Live:
        if self._live is None:
            raise MachineError("nothing is prepared")
        return self._live


def make_owner(descriptors: socket.socket) -> DeviceHandler:
    """Return the handler of the owner."""
    return DeviceHandler(baselines.make_eager, descriptors)


def make_compiler(descriptors: socket.socket) -> DeviceHandler:
    """Return the handler of the process that times torch.compile."""
    return DeviceHandler(baselines.make_compiled, descriptors, keeps=True)


def _draw(request: Message) -> Draw:
    return Draw(request["source"], request["origin"], Values(request["values"]), request["seed"])


def _specs(request: Message) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(s["name"], s["dtype"], tuple(s["shape"]), TensorRole(s["role"])) for s in request["specs"])


def _explain_unfit(specs: Sequence[TensorSpec]) -> str:
    free, total = torch.cuda.mem_get_info()
    need = 2 * sum(spec.nbytes for spec in specs)
    return (
        f"two buffer sets need {need / 2**30:.1f} GiB and as much again for the reference in float64; "
        f"the GPU has {free / 2**30:.1f} of {total / 2**30:.1f} GiB free"
    )
