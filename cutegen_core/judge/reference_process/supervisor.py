"""Answer the engine's requests about problem files, in a process that runs no file's code.

Each request goes to the process of its file (`file_process`). What comes back proves nothing about anything but the
file: raw tensors must fit the signature that the request carries. Inputs are written and outputs are compared with
the expected values here (`judging`), and a kernel's outputs are read only after the expected values have come.
"""

from __future__ import annotations

from pathlib import Path

from cutegen_core.judge.correctness import Precision
from cutegen_core.judge.reference_process import judging, values
from cutegen_core.judge.reference_process.file_process import FileProcess
from cutegen_core.machine.worker import Message
from cutegen_core.records.errors import ProblemError

_FORWARDED = frozenset(
    {"signature", "graph", "lint", "input_facts", "place_facts", "derive", "find_derived", "find_full_sizes"}
)


class Supervisor:
    """Handles the requests of one engine."""

    def __init__(self, process: FileProcess) -> None:
        self._process = process
        self._file = ""
        self._samples: dict[tuple[str, str], tuple[tuple[Precision, ...], ...]] = {}

    def handle(self, request: Message) -> Message:
        """Answer one request; a fault of the file or of the machine is also an answer."""
        if request["file"] != self._file:
            self._file = request["file"]
            self._samples.clear()
        try:
            if request["operation"] == "inputs":
                return self._inputs(request)
            if request["operation"] == "compare":
                return self._compare(request)
            assert request["operation"] in _FORWARDED
            return self._process.ask(request["file"], request, request["seconds"]).message
        except ProblemError as error:
            return {"problem": str(error)}
        except MemoryError:
            return {"problem": f"{request['origin']}: its tensors need more memory than a reference may use."}
        except OSError as error:
            return {"machine": f"the reference worker failed: {error.strerror}: {error.filename}"}

    def _inputs(self, request: Message) -> Message:
        """Write the inputs' files; the tensors must be those of the signature."""
        specs = [judging.spec_from(spec) for spec in request["specs"]]
        most = sum(spec.nbytes for spec in specs)
        message, frames = self._process.ask(request["file"], request, request["seconds"], most)
        if _is_fault(message):
            return message
        if judging.describe_specs(specs) != message.get("tensors") or len(frames) != len(specs):
            raise ProblemError(
                f"{request['origin']}: under this seed, get_inputs or Model gives tensors of another name, shape or "
                f"dtype than when it was traced."
            )
        folder = Path(request["folder"])
        for spec, frame in zip(specs, frames, strict=True):
            values.write_raw(judging.to_tensor(frame, spec.dtype, spec.shape), folder / f"{spec.name}.bin")
        return {"digest": str(message.get("digest"))}

    def _compare(self, request: Message) -> Message:
        outputs = [judging.spec_from(output) for output in request["outputs"]]
        key = (request["source"], request["values"])
        asked = request | {"operation": "expected", "samples": not request["derived"] and key not in self._samples}
        message, frames = self._process.ask(
            request["file"], asked, request["seconds"], judging.most_expected_bytes(outputs)
        )
        if _is_fault(message):
            return message
        if request["derived"]:
            derived = judging.read_derived(message, frames, outputs)
            return {"comparisons": judging.compare_derived(request, outputs, derived) if derived else []}
        first, *more = judging.read_expected(message, frames, outputs)
        if asked["samples"] and first.exact is not None:
            self._samples[key] = tuple(filter(None, (judging.measure_outputs(one) for one in more)))
        return {"comparisons": judging.compare(request, outputs, first, self._samples.get(key, ()))}


def _is_fault(message: Message) -> bool:
    return "problem" in message or "machine" in message
