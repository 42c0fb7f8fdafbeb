"""What still holds at every sandbox level, with the stronger ones forcibly off, and that the level is shown.

`tests/machine/test_sandbox.py` tries the Python side at each level; here are the emulator's runner (`walls.cpp`), the
compilers, the reference and whole trials.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from elftools.elf.elffile import ELFFile

from cutegen_core.execute.emulator import host_compiler
from cutegen_core.execute.emulator.installation import runtime_sources
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.judge.reference import Reference
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine import workspace
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import MAX_LEVEL_VARIABLE, SandboxLevel
from cutegen_core.propose.prompting.feedback import evidence
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import ProblemError
from cutegen_core.records.trial import Status
from tests.adversarial.bench import Bench
from tests.adversarial.case import judged
from tests.adversarial.corpus import named
from tests.adversarial.files import relu
from tests.adversarial.problems import PROBLEMS
from tests.execute.emulator.emulated import not_asked
from tests.patience import PATIENCE_S

FORBIDDEN = (
    "socket", "open", "openat", "execve", "ptrace", "kill", "unlink", "memfd", "readv-other", "io_uring", "unshare",
    "prctl", "executable-memory", "make-executable", "new-namespace",
)  # fmt: skip
FORBIDDEN_TO_WORKERS = (
    "handler", "signal-stack", "signal-mask", "timer", "protect", "fork", "clone", "read", "close", "write-elsewhere",
    "limit", "fixed-memory", "another-filter", *FORBIDDEN,
)  # fmt: skip
NEEDED = ("memory", "time")
REACHABLE_WITHOUT_FILTER = ("socket", "open", "openat", "memfd", "prctl", "executable-memory", "make-executable")


@pytest.fixture(scope="module")
def walls(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that tries the walls."""
    folder = tmp_path_factory.mktemp("walls")
    compiler, source = host_compiler.find(), Path(__file__).parent / "walls.cpp"
    objects = []
    for path in (source, runtime_sources() / "sandbox.cpp"):
        objects.append(str(folder / f"{path.stem}.o"))
        flags = [*compiler.runner_flags(), f"-I{runtime_sources()}", "-c", str(path), "-o", objects[-1]]
        subprocess.run([*compiler.compile, *flags], check=True, env=host_compiler.environment(folder))
    program = str(folder / "walls")
    environment = host_compiler.environment(workspace.cache_dir("emulator"))  # zig's runtime is built there already
    subprocess.run([*compiler.link_runner, *objects, "-o", program], check=True, env=environment)
    return program


@pytest.fixture(scope="module")
def answers(walls: str) -> Mapping[bool, Mapping[str, str]]:
    """What each system call answers, without the filter (True) and with it (False)."""
    found = {}
    for walls_open in (True, False):
        said = subprocess.run(
            [walls, str(int(walls_open))], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        found[walls_open] = dict(line.split() for line in said.stdout.splitlines())
    return found


@pytest.mark.parametrize("call", FORBIDDEN)
def test_the_runner_is_stopped_at_every_forbidden_call(answers: Mapping[bool, Mapping[str, str]], call: str) -> None:
    assert answers[False][call] == "trapped"


def test_a_worker_is_stopped_at_more(walls: str) -> None:
    """A kernel runs in a worker: no handlers, timers, processes or files, and no memory at a place of its choice."""
    said = subprocess.run(
        [walls, "0", "worker"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stderr
    answers = dict(line.split() for line in said.splitlines() if not line.startswith("memory"))
    assert {call: answers.get(call) for call in FORBIDDEN_TO_WORKERS} == dict.fromkeys(FORBIDDEN_TO_WORKERS, "trapped")
    assert "memory done" in said


def test_the_runner_lies_at_a_random_place() -> None:
    with open(CpuExecutor().prepare().runner, "rb") as file:
        assert ELFFile(file).header["e_type"] == "ET_DYN"


def test_the_runner_keeps_what_it_needs_and_never_dumps_core(answers: Mapping[bool, Mapping[str, str]]) -> None:
    assert {answers[False][call] for call in NEEDED} == {"done"}
    assert answers[True]["core-limit"] == "zero"


@pytest.mark.parametrize("call", REACHABLE_WITHOUT_FILTER)
def test_it_is_the_filter_that_stops_them(answers: Mapping[bool, Mapping[str, str]], call: str) -> None:
    """Said plainly: without seccomp the runner's only wall is that a candidate cannot name these functions."""
    assert answers[True][call] == "done"


LEVELS = [
    pytest.param(level, marks=() if level is SandboxLevel.LANDLOCK_SECCOMP else pytest.mark.thorough)
    for level in SandboxLevel
]
"""The strongest always; `tests/machine/test_sandbox.py` tries the Python side at each."""


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[SandboxLevel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(MAX_LEVEL_VARIABLE, raising=False)
        if request.param is not SandboxLevel.LANDLOCK_SECCOMP:
            patch.setenv(MAX_LEVEL_VARIABLE, request.param.value)
        sandbox.probe_level.cache_clear()
        if sandbox.probe_level() is not request.param:
            pytest.skip(f"this kernel has no {request.param}")
        yield request.param
    sandbox.probe_level.cache_clear()


@pytest.fixture(scope="module")
def bench(level: SandboxLevel) -> Iterator[Bench]:
    """Compilers, executor and reference worker, all started at that level."""
    with Bench("cpu") as made:
        yield made


def test_the_level_is_shown(level: SandboxLevel) -> None:
    assert f"sandbox: {level})" in CpuExecutor().describe()


HELD_AT_EVERY_LEVEL = (
    "includes a private file", "a C library function", "incbin at file scope", "a system call in assembly",
    "far past the end", "writes inputs",
)  # fmt: skip


def test_hostile_kernels_get_the_same_verdict_at_every_level(bench: Bench) -> None:
    wrong = {name: judged(named(name), bench.evaluate(named(name))) for name in HELD_AT_EVERY_LEVEL}
    assert not any(wrong.values()), wrong
    assert bench.evaluate(named("naive")).status is Status.PASSED


DOORS = {
    "socket": "import socket; socket.socket()",
    "a program": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "a fork": "import os; os.fork()",
    "another process": "import os; os.kill(os.getppid(), 0)",
    "ptrace": "import ctypes; assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0, 'Operation not permitted'",
}
PRIVATE_FILE = "open('/etc/passwd').read()"


def test_a_reference_is_kept_from_network_programs_and_processes(level: SandboxLevel, bench: Bench) -> None:
    """A private file is closed where Landlock is, which alone knows about files."""
    said = {name: _tried(bench, door) for name, door in {**DOORS, "a private file": PRIVATE_FILE}.items()}
    if level is SandboxLevel.NONE:
        assert said["socket"] == "done"
        return
    assert all("not permitted" in said[name] for name in DOORS), said
    assert ("denied" in said["a private file"]) == (level is SandboxLevel.LANDLOCK_SECCOMP), said


def _tried(bench: Bench, door: str) -> str:
    """Return what a reference gets that tries `door` when it is loaded."""
    problem = PROBLEMS["relu"]
    new = f"# {uuid4()}: no answer of an earlier run is kept for it"
    hostile = replace(problem, source=f"{problem.source}\n{new}\n{door}\n")
    try:
        Reference(hostile, bench.scratch / "hostile", worker=bench.worker).signature(problem.workloads[0])
    except ProblemError as error:
        return str(error)
    return "done"


# -- a private file never comes back ----------------------------------------------------------------------------------

CANARY = "canary_9c3e"


def test_nothing_of_a_private_file_reaches_trial_or_prompt(bench: Bench, tmp_path: Path) -> None:
    """Through all the stages, at every level; at the weaker ones it is the scan that refuses."""
    secret = tmp_path / "secret.h"
    secret.write_text(f"this is {CANARY} and not C++\n")
    kept: list[str | bytes] = []
    ways = (
        f'#include "{secret}"', f"#include <{secret}>", f'#define W "{secret}"\n#include W', f'#inc\\\nlude "{secret}"',
        f'char const d[] = {{\n#embed "{secret}"\n}};', f'asm(".incbin \\"{secret}\\"");', f'# 1 "{secret}"\nint x = ;',
    )  # fmt: skip
    evaluator = bench.evaluator("relu", lambda blob: str(kept.append(blob)))
    for way in ways:
        source = relu(before=way)
        trial = evaluator.evaluate(Candidate(source, Author.MODEL), seed=1)
        assert trial.status in (Status.REJECTED, Status.COMPILE_ERROR), way
        assert CANARY not in repr(trial) + evidence(trial, source), way
    assert not any(CANARY in repr(blob) for blob in kept)


def test_the_sandbox_of_the_emulators_compiler_alone_hides_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scan switched off: what is left is Landlock. NVRTC's is in `tests/execute/compiler/test_compilation.py`."""
    monkeypatch.delenv(MAX_LEVEL_VARIABLE, raising=False)
    sandbox.probe_level.cache_clear()
    if sandbox.probe_level() is not SandboxLevel.LANDLOCK_SECCOMP:
        pytest.skip("this kernel has no Landlock")
    secret = tmp_path / "secret.h"
    secret.write_text(f"this is {CANARY} and not C++\n")
    monkeypatch.setattr("cutegen_core.execute.emulator.candidate_source.check_includes", lambda *_: ())
    built = CpuExecutor().build(parse(relu(before=f'#include "{secret}"')), {}, not_asked, checked=False)
    assert built.status is Status.COMPILE_ERROR
    assert "secret.h" in built.log
    assert CANARY not in built.log + repr(built)
