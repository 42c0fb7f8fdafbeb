"""Check after a crash or a killed kernel that the device still works.

A fresh process creates a context, fills memory, copies it back and compares, as every trial does first. On a healthy
device one kernel cannot break this for other processes, so a failure is the machine's; the message says how to repair
it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from cutegen_core.execute.cuda import driver
from cutegen_core.execute.cuda.memory import Buffer
from cutegen_core.machine.child_environment import child_environment
from cutegen_core.records.errors import MachineError

_PATIENCE_S = 30.0
_PROBE_BYTES = 1 << 20
_BYTES = (0x00, 0xFF, 0x5A)


@dataclass(frozen=True)
class Health:
    """The result of the check.

    Attributes:
        free_bytes: free device memory while the check's own context exists.
    """

    uuid: str
    name: str
    driver: str
    free_bytes: int


def check(uuid: str) -> Health:
    """Check the device; takes about a third of a second.

    Raises:
        MachineError: it does not work; the message says how to repair it.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-health-") as home:
        environment = child_environment(Path(home)) | {"CUDA_VISIBLE_DEVICES": uuid}
        command = [sys.executable, "-m", "cutegen_core.execute.cuda.health"]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise MachineError(_advice(uuid, f"it did not answer within {_PATIENCE_S:g} s")) from None
    if done.returncode != 0 or not done.stdout.startswith("{"):
        raise MachineError(_advice(uuid, (done.stderr or done.stdout).strip()[-500:] or "no output"))
    return Health(**json.loads(done.stdout))


def _advice(uuid: str, problem: str) -> str:
    return (
        f"the GPU {uuid} does not work any more: {problem}. See `nvidia-smi` and `dmesg | grep -i xid`; end other "
        "processes that use it; if it stays so, an administrator must reset the GPU or restart the machine."
    )


def _probe() -> Health:
    gpu = driver.start()
    buffer = Buffer.allocate(_PROBE_BYTES)
    for byte in _BYTES:
        buffer.fill(byte)
        if driver.copy_out(buffer.address, buffer.nbytes) != bytes([byte]) * _PROBE_BYTES:
            raise MachineError("memory does not hold what was written")
    if buffer.find_damage():
        raise MachineError("memory next to what was written has changed")
    buffer.free()
    return Health(gpu.uuid, gpu.name, gpu.driver, driver.free_memory_bytes())


if __name__ == "__main__":
    try:
        print(json.dumps(asdict(_probe())), flush=True)
    except MachineError as error:
        sys.exit(str(error))
    os._exit(0)
