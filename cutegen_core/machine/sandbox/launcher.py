"""Run as a small program: confine this process, then execute a tool in its place or report the level reached.

`sandbox` starts it with `command`. A failure before the tool starts ends it with status `FAILED` and a line that begins
with `FAILURE_PREFIX`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from cutegen_core import PACKAGE
from cutegen_core.machine.sandbox import confine, landlock
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel
from cutegen_core.records.errors import MachineError

FAILED = 125
FAILURE_PREFIX = "cutegen sandbox: "
_LOADERS = (Path("/lib64/ld-linux-x86-64.so.2"), Path("/lib/ld-musl-x86_64.so.1"))
_SYSTEM_READ = tuple(
    Path(p) for p in (
        "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom",
    )
)  # fmt: skip
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def command() -> list[str]:
    """Return the command that starts this program; append the arguments of `launch`."""
    # -S and -I: nothing of the user's site-packages or environment runs before the policy holds.
    start = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from {__name__} import launch; launch(sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", start]


def launch(arguments: Sequence[str]) -> None:
    """Execute a tool in the sandbox, or print the level reached.

    Args:
        arguments: "probe", or "run", a policy as JSON and the tool's command line.
    """
    if arguments[0] == "probe":
        print(_probe())
        return
    try:
        tool = Path(arguments[2]).resolve(strict=True)
        policy = _with_system_paths(Policy.from_json(arguments[1]), tool)
        landlock.check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
        confine.apply(policy, may_exec=True)
        os.execv(tool, list(arguments[2:]))
    except (OSError, MachineError) as error:
        print(f"{FAILURE_PREFIX}cannot run {arguments[2]}: {error}", file=sys.stderr)
        sys.exit(FAILED)


def _with_system_paths(policy: Policy, tool: Path) -> Policy:
    return policy._replace(
        read=policy.read + tuple(p for p in _SYSTEM_READ if p.exists()),
        execute=(*policy.execute, tool, *(p for p in _LOADERS if p.exists())),
    )


def _probe() -> SandboxLevel:
    policy = Policy(read=(Path("/usr"),), write=(), memory_bytes=1 << 30, cpu_seconds=10, file_bytes=1 << 20)
    claimed = confine.apply(policy)
    calls = confine.is_refused(lambda: socket.socket().close())
    files = confine.is_refused(lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
    seccomp = SandboxLevel.SECCOMP if calls else SandboxLevel.NONE
    measured = SandboxLevel.LANDLOCK_SECCOMP if calls and files else seccomp
    if measured is not claimed:
        raise MachineError(f"the sandbox was set up as {claimed} but behaves as {measured}.")
    return measured
