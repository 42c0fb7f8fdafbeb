"""Program of the judge on the GPU: `python -m cutegen_core.judge.gpu.main owner|compiler GPU_UUID`.

1. Imports torch and creates the CUDA context: the driver does not start inside a file sandbox, and has threads already.
2. Enters the sandbox before any file's code runs. *owner*: no network, no other program, only files of Python, torch,
   the driver and its own home. *compiler*: the same, but it may start programs of the system, since torch.compile runs
   a C compiler and ptxas.
3. Answers requests (`worker.DeviceHandler`).

Landlock binds this thread and the threads it starts, and only these run the file's code; the system-call filter also
binds the driver's threads.
"""

from __future__ import annotations

import os
import resource
import site
import sys
import sysconfig
from pathlib import Path

from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.sandbox import confine, landlock, syscall_filter
from cutegen_core.machine.sandbox.policy import MAX_LEVEL_VARIABLE, SandboxLevel
from cutegen_core.machine.worker import inherited_descriptors, serve

OWNER, COMPILER = "owner", "compiler"
_READ = ("/usr", "/lib", "/lib64", "/opt", "/proc", "/sys", "/etc/ld.so.cache", "/etc/passwd", "/etc/localtime")
_EXECUTE = ("/usr", "/bin", "/lib", "/lib64", "/opt")


def main() -> None:
    """Run the process."""
    compiles = sys.argv[1] == COMPILER
    home = Path(os.environ["HOME"])
    os.environ |= {"CUDA_VISIBLE_DEVICES": sys.argv[2], "USER": "cutegen"}  # torch asks for a user name
    if compiles:
        _keep_compilers_home(home)
    descriptors = inherited_descriptors()
    from cutegen_core.judge.gpu import worker  # torch

    handler = worker.make_compiler(descriptors) if compiles else worker.make_owner(descriptors)
    handler.sandbox = shut_in(home, programs=compiles)
    serve(handler.handle)


def shut_in(home: Path, *, programs: bool) -> SandboxLevel:
    """Restrict this process, whose driver threads already run, and return the level reached."""
    asked = os.environ.get(MAX_LEVEL_VARIABLE, "")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    confine.give_up_privileges()
    files = not asked and landlock.enter(
        read=_existing([*_READ, *_python()]),
        write=_existing([str(home), "/proc/self", "/dev/shm"]),
        devices=_existing(["/dev"]),
        execute=_existing([*_EXECUTE, *_python()]) if programs else (),
    )
    calls = asked != SandboxLevel.NONE and syscall_filter.install(
        files="write" if files else "read", processes=programs, may_exec=programs
    )
    return SandboxLevel.NONE if not calls else SandboxLevel.LANDLOCK_SECCOMP if files else SandboxLevel.SECCOMP


def _keep_compilers_home(home: Path) -> None:
    """Keep the compilers' caches in the worker's own home, and compile in this process."""
    os.environ |= {
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"), "TRITON_CACHE_DIR": str(home / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip


def _python() -> list[str]:
    """Return the folders of Python, its packages and this package; not the folder the process was started in."""
    paths = [p for p in sys.path if p and Path(p).resolve() not in (PACKAGE.parent, Path.cwd())]
    return [*sysconfig.get_paths().values(), *site.getsitepackages(), sys.base_prefix, *paths, str(PACKAGE)]


def _existing(paths: list[str]) -> tuple[Path, ...]:
    found = {Path(p).resolve() for p in paths}
    return tuple(sorted(p for p in found if p.exists() and p != Path("/")))


if __name__ == "__main__":
    main()
