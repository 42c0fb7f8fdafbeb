"""Build the emulator once per machine with ninja: the header overlay, the precompiled prelude, the runner.

Each folder's name contains a digest of everything it is built from (sources, compiler, wheel versions), so an upgrade
builds a new folder, and an interrupted build continues where it stopped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cutegen_core.execute.compiler import lean_cute
from cutegen_core.execute.emulator import host_compiler
from cutegen_core.execute.emulator.host_compiler import HostCompiler
from cutegen_core.execute.port import Progress
from cutegen_core.machine import toolchain
from cutegen_core.machine.package import PACKAGE
from cutegen_core.records.errors import MachineError

_LEAST_FREE_BYTES = 64 << 20
"""With less a build may have run out of space, though it has given back some since."""
_TIMEOUT_S = 900.0
# What the prelude instantiates it has done: else each candidate would do it again, 0.1 s of a core, to the same code.
# Ignore the headers' times, which change with a new checkout: their content is in the folder's name.
_PRECOMPILED = ("-fpch-instantiate-templates", "-Xclang", "-fno-pch-timestamp")
_PRELUDE, _COMPLETE = "prelude.pch", "complete"


@dataclass(frozen=True)
class Installation:
    """The files with which candidates are built and run.

    Attributes:
        compiler: the compiler that built them.
        headers: folder of the overlay and of the precompiled prelude; its name contains a digest of their sources.
        runner: the program that executes candidates.
        include_flags: `-isystem` options: first the overlay, then the wheels.
    """

    compiler: HostCompiler
    headers: Path
    runner: Path
    include_flags: tuple[str, ...]

    @property
    def prelude(self) -> Path:
        return self.headers / _PRELUDE


def install(cache: Path, progress: Progress) -> Installation:
    """Build the missing parts below `cache` and return their paths; several processes may call it.

    Raises:
        MachineError: a wheel is missing, CUTLASS has the wrong version, or the compiler fails.
    """
    compiler = host_compiler.find()
    # A precompiled prelude contains absolute paths of headers: a moved workspace or program must build its own.
    known = repr((compiler, sorted(toolchain.installed_versions().items()), cache.absolute(), runtime_sources()))
    headers = cache / f"headers-{_digest(known, _header_sources())}"
    runner = cache / f"runner-{_digest(known, _runner_sources())}"
    includes = (headers / "overlay", *dict.fromkeys(toolchain.find_include_dirs()), *_find_cccl())
    flags = tuple(word for path in includes for word in ("-isystem", str(path)))
    _make(headers, cache, _header_edges(compiler, flags), progress, "header overlay and prelude (once, some seconds)")
    _make(runner, cache, _runner_edges(compiler), progress, "runner (once, a few seconds)")
    return Installation(compiler, headers, runner / "runner", flags)


def runtime_sources() -> Path:
    """Return the folder of the C++ sources of prelude and runner."""
    return Path(str(resources.files("cutegen_core.execute.emulator").joinpath("runtime")))


def _header_sources() -> list[Path]:
    package = runtime_sources().parent
    makers = [package / name for name in ("lexer.py", "asm_statements.py", "overlay.py", "asm_counts.json")]
    makers += [Path(lean_cute.__file__), *lean_cute.HEADERS]
    return [*makers, *sorted(runtime_sources().glob("*.hpp")), runtime_sources() / "abi.h"]


def _runner_sources() -> list[Path]:
    return sorted([*runtime_sources().glob("*.cpp"), *runtime_sources().glob("*.h")])


def _find_cccl() -> tuple[Path, ...]:
    return tuple(d / "cccl" for d in toolchain.find_include_dirs() if (d / "cccl").is_dir())


def _digest(known: str, sources: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{known} {host_compiler.digest_flags()} {_PRECOMPILED}".encode())
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _make(folder: Path, cache: Path, edges: Sequence[str], progress: Progress, what: str) -> None:
    """Run ninja in `folder` unless it is complete; a second process waits for the first."""
    if (folder / _COMPLETE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _COMPLETE).exists():
            progress(f"building the emulator: {what}")
            _run_ninja(folder, cache, edges)
            (folder / _COMPLETE).touch()


def _run_ninja(folder: Path, cache: Path, edges: Sequence[str]) -> None:
    (folder / "build.ninja").write_text("rule run\n  command = $line\n  description = $out\n\n" + "\n".join(edges))
    # `timeout` ends the whole group even if this process dies first: zig loops forever in a deleted workspace.
    limit = ["timeout", "--kill-after=5", str(_TIMEOUT_S)] if shutil.which("timeout") else []
    command = [*limit, sys.executable, "-m", "ninja", "-C", str(folder)]
    paths = os.pathsep.join([str(PACKAGE.parent), *filter(None, sys.path)])
    environment = dict(host_compiler.environment(cache)) | {"PYTHONPATH": paths}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"building the emulator took more than {_TIMEOUT_S:g} s; is the machine overloaded?"
        ) from error
    if done.returncode != 0:
        raise_if_full(done.stdout, folder)
        raise MachineError(f"the emulator cannot be built in {folder}:\n{done.stdout[-4000:]}{done.stderr[-1000:]}")


def raise_if_full(output: str, folder: Path) -> None:
    """Raise MachineError if a compiler ended because the disk is full, which is no kernel's fault.

    A kernel can print the words, too; so the disk is asked.
    """
    if "No space left on device" in output and shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        raise MachineError(f"no space is left in {folder}: free some, or set CUTEGEN_HOME to a larger disk.")


def _header_edges(compiler: HostCompiler, include_flags: Sequence[str]) -> list[str]:
    overlay = [
        sys.executable,
        "-m",
        "cutegen_core.execute.emulator.overlay",
        *map(str, toolchain.find_include_dirs()[:2]),
        "overlay",
    ]
    edges = [_format_edge("overlay.stamp", [], [*overlay, "&&", "touch", "overlay.stamp"])]
    prelude = str(runtime_sources() / "prelude.hpp")
    flags = [*compiler.candidate_flags(), *include_flags, "-x", "c++-header", *_PRECOMPILED]
    edges.append(_format_edge(_PRELUDE, ["overlay.stamp"], [*compiler.compile, *flags, prelude, "-o", _PRELUDE]))
    return edges


def _runner_edges(compiler: HostCompiler) -> list[str]:
    units = sorted(path.stem for path in runtime_sources().glob("*.cpp"))
    objects = [f"{unit}.o" for unit in units]
    edges = [_format_edge("runner", objects, [*compiler.link_runner, *objects, "-o", "runner"])]
    for unit, target in zip(units, objects, strict=True):
        source = str(runtime_sources() / f"{unit}.cpp")
        edges.append(
            _format_edge(target, [], [*compiler.compile, *compiler.runner_flags(), "-c", source, "-o", target])
        )
    return edges


def _format_edge(target: str, needs: Sequence[str], command: Sequence[str]) -> str:
    line = " ".join(word if word == "&&" else _quote(word) for word in command)
    return f"build {target}: run {' '.join(needs)}\n  line = {line}\n"


def _quote(word: str) -> str:
    escaped = word.replace("$", "$$")
    return f"'{escaped}'" if any(c in ' ()&;<>"' for c in word) else escaped
