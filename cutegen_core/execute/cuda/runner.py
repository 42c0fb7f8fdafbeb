"""Run one candidate on memory that another process owns; torch-free. `runner_process` starts this process.

1. Before it knows the candidate, it starts the driver and prepares context, stream and measuring. Then it seals itself
   (`confine.seal`: it can no longer open a file, socket or program; importing memory and loading modules need none).
2. `load` imports a program's buffer sets (inputs read-only, outputs read-write, each followed by unmapped addresses)
   and allocates the scratch.
3. `run` and `measure` load the module afresh, so that no global variable survives a phase, launch it, and poll the
   stream until a deadline.
4. The first fault or a closed channel ends the process, and with it an endless kernel.

Kernel output goes to stdout, a file of the owner. Answers go over the inherited socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import DriverError, Unfinished
from cutegen_core.execute.cuda.flush import Flush
from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram, Preparation
from cutegen_core.execute.cuda.layout import Layout
from cutegen_core.execute.cuda.measuring import Meter, RoundPlan
from cutegen_core.execute.cuda.memory import Buffer
from cutegen_core.execute.cuda.program import Program
from cutegen_core.execute.cuda.shared_memory import SharedMemory
from cutegen_core.execute.cuda.wire import Channel, Message
from cutegen_core.machine.parent import exit_when_closed
from cutegen_core.machine.sandbox import confine
from cutegen_core.records.errors import MachineError
from cutegen_core.records.launch import ONCE_CALLS

_LOG_BYTES = 1 << 20
_SCRATCH_ALIGNMENT = 256


@dataclass
class Runner:
    """What was prepared before the candidate was known, and what is loaded now."""

    stream: int
    shared: SharedMemory
    meter: Meter | None
    cubin: bytes = b""
    program: Program = field(default_factory=lambda: Program(()))
    sets: list[dict[str, Buffer]] = field(default_factory=list)
    places: list[dict[str, DeviceTensor]] = field(default_factory=list)
    scratch: dict[str, Buffer] = field(default_factory=dict)
    kept: list[dict[str, Buffer]] = field(default_factory=list)
    read_sets: set[int] = field(default_factory=set)

    def load(self, message: Message, fds: list[int]) -> Message:
        """Import the memory of a program and free that of the earlier program."""
        self._free()
        self.cubin = _read(fds[0])
        self.program = Program.from_json(message["program"])
        waiting = iter(fds[1:])
        for described in message["sets"]:
            self.sets.append({})
            for tensor in described:
                layout, writable = Layout(**tensor["layout"]), tensor["output"] or message["inputs_writable"]
                self.sets[-1][tensor["name"]] = Buffer.import_fd(next(waiting), layout, writable=writable)
            self.places.append({t["name"]: self._locate(t["name"], t["output"]) for t in described})
        own = [space for space in self.program.scratch if not space.kept]
        kept = [space for space in self.program.scratch if space.kept]
        self.scratch = {space.name: Buffer.allocate(space.nbytes, _SCRATCH_ALIGNMENT) for space in own}
        for _ in self.sets if kept else ():
            self.kept.append({space.name: Buffer.allocate(space.nbytes, _SCRATCH_ALIGNMENT) for space in kept})
        return {}

    def run(self, message: Message) -> Message:
        """Run the plan on one set, as many times in a row as asked; check the scratch guards at the end.

        The outputs are those of the last call, so a call that relies on values left by an earlier one is found out.
        """
        deadline = time.monotonic() + message["timeout_s"]
        with self._load_module() as loaded:
            self._prepare(loaded, message["set"], message["poison"], deadline)
            for _ in range(message["calls"]):
                loaded.poison(self.stream, message["set"], message["poison"])
                self.shared.fill(message["poison"], self.stream)
                loaded.run(self.stream, message["set"])
                driver.wait_until_idle(self.stream, deadline)
        for name, buffer in (item for buffers in (self.scratch, *self.kept) for item in buffers.items()):
            if damage := buffer.find_damage():
                raise ScratchDamaged(name, damage.describe(f"scratch {name}"))
        return {}

    def measure(self, message: Message) -> Message:
        """Measure the device time of sets; the runner must have been started with `--measures`.

        A set that is measured for the first time is read before: else the candidate would be charged for the first use
        of its memory.

        The launches marked once are measured apart, in a round of their own before the calls; each call is charged
        with its share of theirs (`ONCE_CALLS`).

        Raises:
            MachineError: it was started without `--measures`.
        """
        if self.meter is None:
            raise MachineError("this GPU runner was not started to measure.")
        steps = RoundPlan(tuple(message["order"]), message["warm"], message["warm_runs"])
        deadline = time.monotonic() + message["timeout_s"]
        with self._load_module() as loaded:
            time.sleep(max(0.0, message["not_before"] - time.monotonic()))
            self._read_new(steps.order, self.meter.flush)
            once: tuple[float, ...] = ()
            if self.program.prepares:
                self._protect(writable=True)
                once = self.meter.measure(Preparation(loaded), steps, deadline).us
                self._protect(writable=False)
            samples = self.meter.measure(loaded, steps, deadline)
            self._protect(writable=True)
        charged = tuple(
            us + made / ONCE_CALLS for us, made in zip(samples.us, once or (0.0,) * len(samples.us), strict=True)
        )
        return {"us": charged, "once_us": once, "method": samples.method}

    def _prepare(self, loaded: LoadedProgram, index: int, poison: int, deadline: float) -> None:
        """Run the launches marked once; calls find what they made read-only."""
        self._protect(writable=True)
        loaded.poison_kept(self.stream, index, poison)
        loaded.prepare(self.stream, index)
        driver.wait_until_idle(self.stream, deadline)
        self._protect(writable=False)

    def _read_new(self, order: Sequence[int], flush: Flush) -> None:
        new = set(order) - self.read_sets
        for place in (place for index in new for place in self.places[index].values()):
            flush.reading(place.address, place.nbytes).enqueue(self.stream)
        self.read_sets |= new

    def _protect(self, *, writable: bool) -> None:
        for buffers in self.kept:
            for buffer in buffers.values():
                buffer.protect(writable=writable)

    @contextlib.contextmanager
    def _load_module(self) -> Iterator[LoadedProgram]:
        # After a fault the context is lost and the process ends, so there is no unloading in a `finally`.
        scratch, *kept = ({n: b.address for n, b in buffers.items()} for buffers in (self.scratch, *self.kept))
        loaded = LoadedProgram(self.cubin, self.program, self.places, scratch, kept)
        yield loaded
        loaded.unload()

    def _locate(self, name: str, output: bool) -> DeviceTensor:
        buffer = self.sets[-1][name]
        return DeviceTensor(buffer.address, buffer.nbytes, output)

    def _free(self) -> None:
        for buffers in (*self.sets, self.scratch, *self.kept):
            for buffer in buffers.values():
                buffer.free()
        self.sets, self.places, self.scratch, self.kept, self.read_sets = [], [], {}, [], set()


class ScratchDamaged(Exception):  # noqa: N818 - a verdict, not a fault
    """A kernel wrote outside a scratch buffer."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def main() -> None:
    """Serve the socket named by CUTEGEN_CHANNEL until the first fault or the owner's end."""
    channel = Channel(socket.socket(fileno=int(os.environ.pop("CUTEGEN_CHANNEL"))))
    exit_when_closed(channel.socket.fileno())
    try:
        gpu = driver.start()
        stream = driver.create_stream()
        runner = Runner(stream, SharedMemory(gpu), Meter(stream, gpu.l2_bytes) if "--measures" in sys.argv else None)
        driver.wait_until_idle(stream, time.monotonic() + 10.0)
        channel.send({"sandbox": confine.seal(_LOG_BYTES)})
    except MachineError as error:
        channel.send({"machine_error": str(error)})
        return
    while True:
        message, fds = channel.receive()
        answer = _answer(runner, message, fds)
        channel.send(answer)
        if answer.get("ended") != "well":
            os._exit(0)  # the context may be lost or busy; the operating system frees everything


def _answer(runner: Runner, message: Message, fds: list[int]) -> Message:
    actions: Mapping[str, Callable[[], Message]] = {
        "load": lambda: runner.load(message, fds),
        "run": lambda: runner.run(message),
        "measure": lambda: runner.measure(message),
    }
    try:
        return {"ended": "well", "result": actions[message["op"]]()}
    except LaunchRefused as refused:
        return {"ended": "refused", "message": str(refused)}
    except ScratchDamaged as damaged:
        return {"ended": "damaged", "scratch": damaged.name, "message": str(damaged)}
    except Unfinished:
        return {"ended": "unfinished"}
    except DriverError as error:
        return {"ended": "fault", "name": error.name, "call": error.call, "text": error.text}
    except MachineError as error:
        return {"machine_error": str(error)}


def _read(fd: int) -> bytes:
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()


if __name__ == "__main__":
    main()
