"""Shuts a process in before it handles what a model or a stranger wrote.

1. `apply` narrows the calling process for good: resource limits, no core dumps, no new privileges, Landlock (which
   files), seccomp (which system calls). It takes the strongest level the kernel offers and returns which one that is.
2. `run` starts a tool (a host compiler, a disassembler) behind a small launcher, this module run as a program, that
   applies the policy and becomes the tool; it caps time and output and kills the whole process group.
3. `available` tries it out in a process of its own, so that the page can say what really holds on this machine.

Landlock: https://docs.kernel.org/userspace-api/landlock.html. The system calls are in `syscall_filter`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from cutegen_core import PACKAGE
from cutegen_core.machine.sandbox import landlock, syscall_filter
from cutegen_core.records.errors import MachineError

MAX_LEVEL_VARIABLE = "CUTEGEN_SANDBOX_MAX"
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate", "memory exhausted")


class Level(StrEnum):
    """What is enforced beside resource limits."""

    LANDLOCK_SECCOMP = "landlock+seccomp"
    SECCOMP = "seccomp"
    NONE = "none"


@dataclass(frozen=True)
class Policy:
    """What a process may still do. The network is always denied.

    Attributes:
        read: files and folders it may read. With neither `read` nor `write` it can open nothing at all.
        write: files and folders it may also create, change and delete in.
        execute: programs it may become or start (read included); `run` adds its tool.
        memory_bytes: address space of each process.
        cpu_seconds: processor time of each process.
        file_bytes: largest file it may write.
        processes: may start children, and run the programs in `execute`.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    memory_bytes: int
    cpu_seconds: int
    file_bytes: int
    execute: tuple[Path, ...] = ()
    processes: bool = False


@dataclass(frozen=True)
class Completed:
    """How a sandboxed tool ended.

    Attributes:
        returncode: exit status, negative for the signal that killed it.
        output: stdout and stderr together, at most the limit.
        limit: which limit ended it: "", "time", "memory" or "output".
    """

    returncode: int
    output: str
    seconds: float
    limit: str


def apply(policy: Policy) -> Level:
    """Narrows the calling process, irreversibly. Its threads must not have been started yet.

    Raises:
        MachineError: other threads run (they would stay free), a path is missing, or the kernel refuses.
    """
    return _apply(policy, may_exec=policy.processes)


def seal(file_bytes: int) -> Level:
    """Narrows the calling process with all its threads, such as those a CUDA driver has started: no file can be opened
    any more, no program started, no socket made; what is open stays usable. Landlock would bind one thread only, and
    there is nothing left for it to deny.

    Args:
        file_bytes: how long the files it has open for writing may grow.

    Raises:
        MachineError: the kernel refuses the filter, or lets forbidden things through nevertheless.
    """
    strongest = _strongest_allowed()
    give_up_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if strongest is Level.NONE or not syscall_filter.install(files="none", processes=False, may_exec=False):
        return Level.NONE
    if not (_refused(lambda: socket.socket().close()) and _refused(lambda: os.close(os.open("/", os.O_RDONLY)))):
        raise MachineError("the sandbox was set up, but sockets or files can still be opened.")
    return Level.SECCOMP


def give_up_privileges() -> None:
    """No other process of the user may look into this one, and it gains no rights by starting programs."""
    landlock.check(_LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")
    landlock.check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


@functools.cache
def available() -> Level:
    """The level a process gets here, measured: forbidden things are tried, not looked up."""
    done = subprocess.run(
        [*_launcher(), "probe"], capture_output=True, text=True, env=_launcher_environment(os.environ), timeout=30
    )
    if done.returncode != 0:
        raise MachineError(f"the sandbox cannot be tried out on this machine: {done.stderr.strip()}")
    return Level(done.stdout.strip())


def run(
    argv: Sequence[str], policy: Policy, *, cwd: Path, env: Mapping[str, str], timeout_s: float, output_limit_bytes: int
) -> Completed:
    """Runs a tool under `policy`; its stdin is empty and every process it started ends with it.

    Raises:
        MachineError: the tool does not exist or the policy cannot be applied.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        command(argv, policy), cwd=cwd, env=_launcher_environment(env), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    output, limit = b"", ""
    try:
        output, limit = _read_capped(process, started + timeout_s, output_limit_bytes)
    finally:
        kill_group(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        process.stdout.close()
    text = output.decode(errors="replace")
    if process.returncode == _LAUNCH_FAILED and text.startswith(_LAUNCH_PREFIX):
        raise MachineError(text.removeprefix(_LAUNCH_PREFIX).strip())
    limit = limit or classify(process.returncode, text, usage.ru_maxrss * 1024, policy.memory_bytes)
    return Completed(process.returncode, text, time.monotonic() - started, limit)


def command(argv: Sequence[str], policy: Policy) -> list[str]:
    """The command line that runs `argv` under `policy`, for build tools that start the compiler themselves."""
    return [*_launcher(), "run", _to_json(policy), *argv]


def kill_group(leader: int) -> None:
    """Ends a process group, if there is one left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def classify(returncode: int, output: str, peak_bytes: int, memory_bytes: int) -> str:
    """Names the resource limit a process died of, "" when it was none.

    An exhausted address space shows itself in many ways (bad_alloc, abort, a segmentation fault), so a failed process
    that came near its limit, or says it is out of memory, counts.
    """
    if returncode == 0:
        return ""
    if -returncode == signal.SIGXCPU:
        return "time"
    if -returncode == signal.SIGXFSZ:
        return "output"
    said = any(words in output.lower() for words in _OUT_OF_MEMORY)
    return "memory" if said or peak_bytes > 0.8 * memory_bytes else ""


# -- inside the process that is narrowed ------------------------------------------------------------------------------

_LAUNCH_FAILED = 125
_PATHS = ("read", "write", "execute")
_LAUNCH_PREFIX = "cutegen sandbox: "
_OPEN_FILES = 256
_LOADERS = (Path("/lib64/ld-linux-x86-64.so.2"), Path("/lib/ld-musl-x86_64.so.1"))
_SYSTEM_READ = tuple(
    Path(p) for p in (
        "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom",
    )
)  # fmt: skip
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 4, 1, 38


def _apply(policy: Policy, *, may_exec: bool) -> Level:
    if len(os.listdir("/proc/self/task")) > 1:
        raise MachineError("the sandbox must be entered before other threads start; this process already has some.")
    strongest = _strongest_allowed()
    give_up_privileges()
    files = strongest is Level.LANDLOCK_SECCOMP and landlock.enter(
        read=policy.read, write=policy.write, execute=policy.execute
    )
    _limit_resources(policy)
    calls = strongest is not Level.NONE and syscall_filter.install(
        files="none" if not policy.read and not policy.write else "read" if not policy.write else "write",
        processes=policy.processes, may_exec=may_exec,
    )  # fmt: skip
    if not calls:
        return Level.NONE
    return Level.LANDLOCK_SECCOMP if files else Level.SECCOMP


def _strongest_allowed() -> Level:
    asked = os.environ.get(MAX_LEVEL_VARIABLE, "")
    if not asked:
        return Level.LANDLOCK_SECCOMP
    if asked not in ("seccomp", "none"):
        raise MachineError(f"{MAX_LEVEL_VARIABLE}={asked!r} is not a level; use 'seccomp' or 'none', or unset it.")
    return Level(asked)


def _limit_resources(policy: Policy) -> None:
    for name, value, slack in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_AS, policy.memory_bytes, 0),
        (resource.RLIMIT_CPU, policy.cpu_seconds, 1),
        (resource.RLIMIT_FSIZE, policy.file_bytes, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES, 0),
    ):
        _, ceiling = resource.getrlimit(name)
        bound = ceiling if ceiling != resource.RLIM_INFINITY else max(value + slack, 0)
        resource.setrlimit(name, (min(value, bound), min(value + slack, bound)))


# -- the launcher -----------------------------------------------------------------------------------------------------


def _launcher() -> list[str]:
    # -S and -I: nothing of the user's site-packages or environment runs before the policy holds.
    start = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); from {__name__} import launch; launch(sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", start]


def launch(arguments: Sequence[str]) -> None:
    """Becomes `arguments`: "probe", or "run", a policy as JSON and the tool's command line."""
    if arguments[0] == "probe":
        print(_probe())
        return
    try:
        tool = Path(arguments[2]).resolve(strict=True)
        policy = _with_system_paths(_from_json(arguments[1]), tool)
        landlock.check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
        _apply(policy, may_exec=True)
        os.execv(tool, list(arguments[2:]))
    except (OSError, MachineError) as error:
        print(f"{_LAUNCH_PREFIX}cannot run {arguments[2]}: {error}", file=sys.stderr)
        sys.exit(_LAUNCH_FAILED)


def _with_system_paths(policy: Policy, tool: Path) -> Policy:
    return replace(
        policy,
        read=policy.read + tuple(p for p in _SYSTEM_READ if p.exists()),
        execute=(*policy.execute, tool, *(p for p in _LOADERS if p.exists())),
    )


def _probe() -> Level:
    claimed = apply(Policy(read=(Path("/usr"),), write=(), memory_bytes=1 << 30, cpu_seconds=10, file_bytes=1 << 20))
    calls = _refused(lambda: socket.socket().close())
    files = _refused(lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
    measured = Level.LANDLOCK_SECCOMP if calls and files else Level.SECCOMP if calls else Level.NONE
    if measured is not claimed:
        raise MachineError(f"the sandbox was set up as {claimed} but behaves as {measured}.")
    return measured


def _refused(action: Callable[[], None]) -> bool:
    try:
        action()
    except PermissionError:
        return True
    return False


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
                return bytes(output), "" if _ended(process.pid, deadline) else "time"
            output += chunk
            if len(output) > limit_bytes:
                return bytes(output[:limit_bytes]), "output"


def _ended(pid: int, deadline: float) -> bool:
    """Waits until a child has ended, leaving its status to be collected; False at the deadline."""
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            return True
        time.sleep(0.002)
    return False


def _to_json(policy: Policy) -> str:
    fields = {name: getattr(policy, name) for name in _PATHS}
    return json.dumps(vars(policy) | {name: [str(p) for p in paths] for name, paths in fields.items()})


def _from_json(text: str) -> Policy:
    fields = json.loads(text)
    return Policy(**(fields | {name: tuple(Path(p) for p in fields[name]) for name in _PATHS}))
