"""The sandbox, tried at each of its levels with the stronger ones forced off: what must fail does fail."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import MAX_LEVEL_VARIABLE, Policy, SandboxLevel
from cutegen_core.records.errors import MachineError
from tests.patience import SOON_S

LEVELS = [SandboxLevel.LANDLOCK_SECCOMP, SandboxLevel.SECCOMP, SandboxLevel.NONE]
PYTHON = Path(sys.executable).resolve()
PYTHON_HOME = Path(sys.base_prefix).resolve()


enforced = pytest.mark.parametrize("level", LEVELS[:2], indirect=True)
"""Only the levels above resource limits."""
strongest = pytest.mark.parametrize(
    "level", [LEVELS[0], *(pytest.param(level, marks=pytest.mark.thorough) for level in LEVELS[1:])], indirect=True
)
"""What no level changes, and what takes seconds of a core: by default, only at the strongest level."""


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    if request.param is SandboxLevel.LANDLOCK_SECCOMP:
        monkeypatch.delenv(MAX_LEVEL_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(MAX_LEVEL_VARIABLE, request.param.value)
    sandbox.probe_level.cache_clear()
    if sandbox.probe_level() is not request.param:
        pytest.skip(f"this kernel has no {request.param}")
    yield request.param
    sandbox.probe_level.cache_clear()


def policy(folder: Path, **changes) -> Policy:
    fields = {
        "read": (PYTHON_HOME,), "write": (folder,), "memory_bytes": 512 << 20, "cpu_seconds": 5, "file_bytes": 1 << 20,
    } | changes  # fmt: skip
    return Policy(**fields)


def run_python(code: str, folder: Path, timeout_s: float = 10, output_limit_bytes: int = 10_000, **changes):
    return sandbox.run(
        [str(PYTHON), "-I", "-S", "-c", textwrap.dedent(code)], policy(folder, **changes), cwd=folder, env={},
        timeout_s=timeout_s, output_limit_bytes=output_limit_bytes,
    )  # fmt: skip


def attempt(expression: str, folder: Path, **changes) -> str:
    """Return what a sandboxed process answers to one try: "done" or the name of the exception."""
    code = f"""
import os, socket, ctypes
try:
    {expression}
    print("done")
except OSError as error:
    print(type(error).__name__)
"""
    return run_python(code, folder, **changes).output.strip()


def test_private_files_are_closed_where_landlock_is(level, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("canary")
    inside = tmp_path / "inside"
    inside.mkdir()
    answer = attempt(f"print(open({str(secret)!r}).read())", inside)
    assert ("canary" in answer) == (level is not SandboxLevel.LANDLOCK_SECCOMP)


def test_own_folder_is_open_at_every_level(level, tmp_path):
    assert (
        attempt("open('x', 'w').write('1'); os.rename('x', 'y'); open('y').read(); os.remove('y')", tmp_path) == "done"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "socket.socket()",
        "socket.socket(socket.AF_UNIX)",
        "os.fork() or os._exit(0)",
        "os.kill(os.getppid(), 0)",
        "os.setsid()",
        "os.mknod('node')",
        "r = ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0)\n    if r < 0: raise PermissionError",
        "r = ctypes.CDLL(None, use_errno=True).unshare(0x10000000)\n    if r < 0: raise PermissionError",
    ],
)
@enforced
def test_forbidden_calls(level, expression, tmp_path):
    assert attempt(expression, tmp_path) == "PermissionError"


@pytest.mark.parametrize(
    "expression", ["open('x', 'w')", "os.mkdir('d')", "os.remove('kept')", "os.rename('kept', 'z')"]
)
@enforced
def test_nothing_is_written_without_a_write_grant(level, expression, tmp_path):
    (tmp_path / "kept").write_text("1")
    assert attempt(expression, tmp_path, read=(PYTHON_HOME, tmp_path), write=()) == "PermissionError"


def test_threads_start_and_children_only_where_allowed(level, tmp_path):
    thread = "import threading; t = threading.Thread(target=print, args=('ran',)); t.start(); t.join()"
    assert run_python(thread, tmp_path).output == "ran\n"
    child = "import os; p = os.fork(); p or os._exit(7); print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))"
    assert run_python(child, tmp_path, processes=True).output == "7\n"


def test_only_granted_programs_run(level, tmp_path):
    other = "import os; os.execv('/bin/true', ['true'])"
    assert (run_python(other, tmp_path, processes=True).returncode == 0) == (level is not SandboxLevel.LANDLOCK_SECCOMP)
    assert run_python(other, tmp_path, execute=(Path("/bin/true").resolve(),), processes=True).returncode == 0


def test_time_limit_ends_the_whole_group(level, tmp_path):
    code = """
        import os, time
        if os.fork() == 0:
            os.write(1, str(os.getpid()).encode() + b"\\n")
        time.sleep(60)
    """
    done = run_python(code, tmp_path, timeout_s=0.1, processes=True)
    assert done.limit == "time"
    assert done.seconds < SOON_S
    assert _ends(int(done.output))


def test_waiting_is_not_counted_as_work(level, tmp_path):
    """A busy machine makes a tool wait, too: only its processor time says that it works too long."""
    done = run_python("import time; time.sleep(1.0); print('done')", tmp_path, timeout_s=0.5)
    assert (done.limit, done.output) == ("", "done\n")


@strongest
def test_processor_time_is_limited_and_a_tool_stopped_for_it_gets_another_try(level, tmp_path):
    code = """
        import pathlib
        tried = pathlib.Path("tried")
        again = tried.exists()
        tried.touch()
        while not again: pass
        print("done")
    """
    assert run_python(code, tmp_path, cpu_seconds=1).output == "done\n"


def test_memory_output_and_file_limits(level, tmp_path):
    assert run_python("x = bytearray(1 << 30)", tmp_path).returncode == 1
    grow = "import ctypes\nx = [bytearray(1 << 20) for i in range(600)]"
    grown = run_python(grow, tmp_path)
    assert grown.limit == "memory" or "MemoryError" in grown.output
    flood = run_python("while True: print('x' * 1000)", tmp_path, output_limit_bytes=5000)
    assert (flood.limit, len(flood.output)) == ("output", 5000)
    assert "File too large" in run_python("open('big', 'wb').write(bytes(2 << 20))", tmp_path).output


def test_no_core_dumps_and_no_new_privileges(level, tmp_path):
    code = """
        import resource
        print([line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")])
        print(resource.getrlimit(resource.RLIMIT_CORE))
    """
    assert run_python(code, tmp_path, read=(PYTHON_HOME, Path("/proc"))).output == "['1']\n(0, 0)\n"


@enforced
def test_a_sealed_process_can_open_nothing(level):
    code = """
        from pathlib import Path
        from cutegen_core.machine.sandbox import confine
        from cutegen_core.machine.sandbox.policy import Policy
        confine.apply(Policy(read=(), write=(), memory_bytes=1 << 30, cpu_seconds=5, file_bytes=0))
        try:
            open("/dev/null")
        except PermissionError:
            print("refused")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "refused\n", done.stderr


def test_other_threads_are_refused_and_a_wrong_level_is_named(monkeypatch):
    code = """
        import threading, time
        from cutegen_core.machine.sandbox import confine
        from cutegen_core.machine.sandbox.policy import Policy
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
        confine.apply(Policy(read=(), write=(), memory_bytes=1 << 30, cpu_seconds=5, file_bytes=0))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ)
    assert "before other threads start" in done.stderr
    monkeypatch.setenv(MAX_LEVEL_VARIABLE, "some")
    sandbox.probe_level.cache_clear()
    with pytest.raises(MachineError, match="'some' is not a level"):
        sandbox.probe_level()


def test_missing_tools_and_paths_are_the_machines_fault(tmp_path):
    with pytest.raises(MachineError, match="/no/such/tool"):
        sandbox.run(
            ["/no/such/tool"], policy(tmp_path), cwd=tmp_path, env={}, timeout_s=5, output_limit_bytes=1000
        )  # fmt: skip
    if sandbox.probe_level() is SandboxLevel.LANDLOCK_SECCOMP:
        with pytest.raises(MachineError, match="cannot grant /no/such/folder"):
            run_python("pass", tmp_path, read=(Path("/no/such/folder"),))


def _ends(pid: int) -> bool:
    """Tell whether the process is gone, or about to be collected, soon."""
    for _ in range(int(100 * SOON_S)):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_the_memory_of_what_starts_a_tool_is_not_the_tools(tmp_path):
    ballast = bytearray(b"x") * (600 << 20)
    assert run_python("raise SystemExit(3)", tmp_path).limit == ""
    assert ballast[-1] == ord("x")


def test_a_tool_that_something_else_kills_gets_another_try_and_is_not_blamed(tmp_path, monkeypatch):
    monkeypatch.setenv(MAX_LEVEL_VARIABLE, SandboxLevel.NONE.value)  # where a process may kill itself
    dies_once = """
        import os, pathlib
        begun = pathlib.Path("begun")
        if not begun.exists():
            begun.touch()
            os.kill(os.getpid(), 9)
        print("done")
    """
    assert run_python(dies_once, tmp_path).output.strip() == "done"
    with pytest.raises(MachineError, match="was killed twice, at no limit of its own"):
        run_python("import os; os.kill(os.getpid(), 9)", tmp_path)
