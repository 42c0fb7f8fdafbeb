"""Run a tool that reads untrusted text, such as a host compiler or a disassembler, in a sandbox.

1. `run` starts the tool through the launcher, which applies the policy and then executes the tool. `run` limits time
   and output and kills the whole process group at the end.
2. `probe_level` measures the sandbox in a process of its own, so that the page shows what really holds here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cutegen_core.machine import priority
from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.sandbox import launcher
from cutegen_core.machine.sandbox.policy import MAX_LEVEL_VARIABLE, Policy, SandboxLevel
from cutegen_core.records.errors import MachineError

PATIENCE = 10
"""Wall-clock time / processor time that a process may take before a busy machine is no excuse."""
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate", "memory exhausted")


@dataclass(frozen=True)
class Completed:
    """How a sandboxed tool ended.

    Attributes:
        returncode: exit status, negative for the signal that killed it.
        output: stdout and stderr together, cut at the limit.
        limit: the limit that ended it: "time", "memory", "output", or "" for none.
    """

    returncode: int
    output: str
    seconds: float
    limit: str

    @property
    def was_killed(self) -> bool:
        """Tell whether something else than a limit of its own killed it."""
        return self.returncode == -signal.SIGKILL and not self.limit


@functools.cache
def probe_level() -> SandboxLevel:
    """Return the level a process gets here, measured by attempting what should be denied.

    Raises:
        MachineError: the sandbox cannot be tried here.
    """
    done = subprocess.run(
        [*_command(), "probe"],
        capture_output=True,
        text=True,
        env=_launcher_environment(os.environ),
        timeout=30,
    )
    if done.returncode != 0:
        raise MachineError(f"the sandbox cannot be tried out on this machine: {done.stderr.strip()}")
    return SandboxLevel(done.stdout.strip())


def run(
    argv: Sequence[str], policy: Policy, *, cwd: Path, env: Mapping[str, str], timeout_s: float, output_limit_bytes: int
) -> Completed:
    """Run a tool under `policy` with empty stdin; every process it started ends with it.

    A tool stopped for its time is run once more, since others may have slowed the machine; so is one that something
    else killed, such as the system for want of memory.

    Args:
        timeout_s: as long as the tool takes at most on an idle machine. `policy.cpu_seconds` limits its processor time;
            on the clock it gets PATIENCE times as much, since the processor may be busy with something else.

    Raises:
        MachineError: the tool does not exist, the policy cannot be applied, or the tool was killed twice.
    """
    once = partial(_run_once, argv, policy, cwd, env, timeout_s * PATIENCE, output_limit_bytes)
    done = once()
    if done.limit == "time" or done.was_killed:
        done = once()
    if done.was_killed:
        raise MachineError(killed_from_outside(Path(argv[0]).name))
    return done


def killed_from_outside(what: str) -> str:
    """Say that a process was killed twice, by nothing that it did itself."""
    return f"{what} was killed twice, at no limit of its own: is this machine out of memory?"


def _run_once(
    argv: Sequence[str], policy: Policy, cwd: Path, env: Mapping[str, str], seconds: float, output_limit_bytes: int
) -> Completed:
    started = time.monotonic()
    process = subprocess.Popen(
        [*_command(), "run", *policy.to_arguments(), "--", *argv], cwd=cwd, env=_launcher_environment(env),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    output, limit = b"", ""
    try:
        priority.make_way(process.pid)
        output, limit = _read_capped(process, started + seconds, output_limit_bytes)
    finally:
        kill_group(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        process.stdout.close()
    text = output.decode(errors="replace")
    if process.returncode == launcher.FAILED and text.startswith(launcher.FAILURE_PREFIX):
        raise MachineError(text.removeprefix(launcher.FAILURE_PREFIX).strip())
    # The kernel counts what this process had in memory as the peak of one that it starts: only more is the tool's own.
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_bytes = usage.ru_maxrss * 1024 if usage.ru_maxrss > inherited else 0
    limit = limit or _name_limit(process.returncode, text, peak_bytes, policy.memory_bytes)
    return Completed(process.returncode, text, time.monotonic() - started, limit)


def _command() -> list[str]:
    """Return the command that starts the launcher; append the arguments of `launch`."""
    # -S and -I: nothing of the user's site-packages or environment runs before the policy holds.
    name = launcher.__name__
    start = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from {name} import launch; launch(sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", start]


def kill_group(leader: int) -> None:
    """Kill a process group if it still exists."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _name_limit(returncode: int, output: str, peak_bytes: int, memory_bytes: int) -> str:
    """Name the resource limit that ended a process, "" if none did.

    A process that runs out of address space fails in many ways (bad_alloc, abort, segmentation fault). A failed process
    is therefore counted as out of memory if it came near its limit or reports that it is out of memory.
    """
    if returncode == 0:
        return ""
    if -returncode == signal.SIGXCPU:
        return "time"
    if -returncode == signal.SIGXFSZ:
        return "output"
    said = any(words in output.lower() for words in _OUT_OF_MEMORY)
    return "memory" if said or peak_bytes > 0.8 * memory_bytes else ""


def _launcher_environment(env: Mapping[str, str]) -> dict[str, str]:
    asked = os.environ.get(MAX_LEVEL_VARIABLE)
    return dict(env) | ({MAX_LEVEL_VARIABLE: asked} if asked else {})


def _read_capped(process: subprocess.Popen[bytes], deadline: float, limit_bytes: int) -> tuple[bytes, str]:
    assert process.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return bytes(output), "time"
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                return bytes(output), "" if _wait_for_end(process.pid, deadline) else "time"
            output += chunk
            if len(output) > limit_bytes:
                return bytes(output[:limit_bytes]), "output"


def _wait_for_end(pid: int, deadline: float) -> bool:
    """Wait until a child has ended, without collecting its status; return False at the deadline."""
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        time.sleep(0.002)
    return False
