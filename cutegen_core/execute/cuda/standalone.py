"""Run one plan on exact allocations, alone in a process, for a profiler or a sanitizer to watch.

    python -m cutegen_core.execute.cuda.standalone SPEC

There is no shared memory and no sandbox, because the tools inject code of their own. Every tensor is a cuMemAlloc of
its exact size, so that the sanitizer detects access to the first byte after it. SPEC is JSON, written by `write_spec`.
The last line of stdout is one JSON object: {"ended": "well" | "refused" | "unfinished" | "fault", ...}, as a runner
answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda.bindings import driver as cuda

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.driver import DriverError, Unfinished, call
from cutegen_core.execute.cuda.launching import DeviceTensor, LaunchRefused, LoadedProgram
from cutegen_core.execute.cuda.program import Program


def write_spec(
    spec: Path,
    cubin: Path,
    program: Program,
    inputs: Mapping[str, Path],
    outputs: Mapping[str, int],
    *,
    uuid: str = "",
    poison: int | None = None,
    runs: int = 1,
    timeout_s: float = 60.0,
) -> None:
    """Write the description of a run.

    Args:
        inputs: tensor -> file of its values.
        outputs: tensor -> size in bytes.
        uuid: of the GPU; "" means the first one.
        poison: byte that fills outputs and unzeroed scratch; None leaves them uninitialised, which initcheck needs.
        runs: number of runs of the plan, all on the same buffers.
    """
    description = {
        "cubin": str(cubin), "program": program.to_json(), "inputs": {n: str(p) for n, p in inputs.items()},
        "outputs": dict(outputs), "uuid": uuid, "poison": poison, "runs": runs, "timeout_s": timeout_s,
    }  # fmt: skip
    spec.write_text(json.dumps(description))


def main(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Run the plan as the spec describes."""
    if spec["uuid"]:
        os.environ["CUDA_VISIBLE_DEVICES"] = spec["uuid"]
    driver.start()
    stream = driver.create_stream()
    program = Program.from_json(spec["program"])
    try:
        places, scratch = _load_tensors(spec), {s.name: _allocate(s.nbytes) for s in program.scratch}
        loaded = LoadedProgram(Path(spec["cubin"]).read_bytes(), program, [places], scratch)
        if spec["poison"] is not None:
            loaded.poison(stream, 0, spec["poison"])
            loaded.poison_kept(stream, 0, spec["poison"])
        loaded.prepare(stream, 0)
        for _ in range(spec["runs"]):
            loaded.run(stream, 0)
        driver.wait_until_idle(stream, time.monotonic() + spec["timeout_s"])
    except LaunchRefused as refused:
        return {"ended": "refused", "message": str(refused)}
    except Unfinished:
        return {"ended": "unfinished"}
    except DriverError as error:
        return {"ended": "fault", "name": error.name, "call": error.call, "text": error.text}
    return {"ended": "well"}


def _load_tensors(spec: Mapping[str, Any]) -> dict[str, DeviceTensor]:
    places = {}
    for name, path in spec["inputs"].items():
        values = Path(path).read_bytes()
        places[name] = DeviceTensor(_allocate(len(values)), len(values), output=False)
        driver.copy_in(places[name].address, values)
    for name, nbytes in spec["outputs"].items():
        places[name] = DeviceTensor(_allocate(nbytes), nbytes, output=True)
    return places


def _allocate(nbytes: int) -> int:
    return int(call(cuda.cuMemAlloc, nbytes)) if nbytes else 0


if __name__ == "__main__":
    answer = main(json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps(answer), flush=True)
    if answer["ended"] == "unfinished":
        os._exit(0)  # a normal exit would wait for the kernel
