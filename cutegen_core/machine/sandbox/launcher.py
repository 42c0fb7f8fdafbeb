"""Run as a small program: confine this process, then execute a tool in its place or report the level reached.

`sandbox` starts it. A failure before the tool starts ends it with status `FAILED` and a line that begins
with `FAILURE_PREFIX`.
"""

from __future__ import annotations

import _socket  # `socket` takes longer to import, and every tool waits for it
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

from cutegen_core.machine.sandbox import confine, landlock
from cutegen_core.machine.sandbox.policy import Policy, SandboxLevel
from cutegen_core.records.errors import MachineError

FAILED = 125
FAILURE_PREFIX = "cutegen sandbox: "
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1")
_SYSTEM_READ = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom",
)  # fmt: skip
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def launch(arguments: Sequence[str]) -> None:
    """Execute a tool in the sandbox, or print the level reached.

    Args:
        arguments: "probe", or "run", the arguments of a policy, "--" and the tool's command line.
    """
    if arguments[0] == "probe":
        print(_probe())
        return
    end = arguments.index("--")
    policy, tool = Policy.from_arguments(arguments[1:end]), arguments[end + 1 :]
    try:
        program = os.path.realpath(tool[0], strict=True)
        landlock.check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
        confine.apply(_with_system_paths(policy, program), may_exec=True)
        os.execv(program, list(tool))
    except (OSError, MachineError) as error:
        print(f"{FAILURE_PREFIX}cannot run {tool[0]}: {error}", file=sys.stderr)
        sys.exit(FAILED)


def _with_system_paths(policy: Policy, program: str) -> Policy:
    return policy._replace(
        read=policy.read + tuple(filter(os.path.exists, _SYSTEM_READ)),
        execute=(*policy.execute, program, *filter(os.path.exists, _LOADERS)),
    )


def _probe() -> SandboxLevel:
    policy = Policy(read=("/usr",), write=(), memory_bytes=1 << 30, cpu_seconds=10, file_bytes=1 << 20)
    claimed = confine.apply(policy)
    calls = confine.is_refused(lambda: _socket.socket().close())
    files = confine.is_refused(lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
    seccomp = SandboxLevel.SECCOMP if calls else SandboxLevel.NONE
    measured = SandboxLevel.LANDLOCK_SECCOMP if calls and files else seccomp
    if measured is not claimed:
        raise MachineError(f"the sandbox was set up as {claimed} but behaves as {measured}.")
    return measured
