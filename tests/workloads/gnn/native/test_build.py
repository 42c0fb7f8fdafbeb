"""The native code is built once, whole or not at all, and for any processor of its kind."""

import os
import shutil
import subprocess
import sys

import pytest

from cutegen_core.records.errors import MachineError
from cutegen_core.workloads.gnn.native import build
from tests.places import ROOT

_BUILD = "from cutegen_core.workloads.gnn.native import abi, build; abi.native(); print(build.library())"


@pytest.mark.thorough
def test_processes_that_build_at_once_share_one_whole_library(tmp_path):
    environment = os.environ | {"CUTEGEN_HOME": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", _BUILD], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = {process.communicate()[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(said) == 1
    assert [path.suffix for path in (tmp_path / "cache" / "gnn-native").iterdir()] == [".so"]


def test_a_second_process_compiles_nothing(monkeypatch):
    path = build.library()
    build.library.cache_clear()
    monkeypatch.setattr(build, "_compile", lambda scratch: pytest.fail("compiled again"))
    assert build.library() == path


def test_the_library_is_named_by_all_that_decides_it(monkeypatch, tmp_path):
    keys = {build._key()}
    for source in [*build._HERE.glob("*.c"), *build._HERE.glob("*.h")]:
        (tmp_path / source.name).write_bytes(source.read_bytes())
    with monkeypatch.context() as changed:
        changed.setattr(build, "_HERE", tmp_path)
        assert build._key() in keys
        (tmp_path / "rows.h").write_text((tmp_path / "rows.h").read_text() + "\n")
        keys.add(build._key())
    with monkeypatch.context() as changed:
        changed.setattr(build, "_FLAGS", (*build._FLAGS, "-g"))
        keys.add(build._key())
    with monkeypatch.context() as changed:
        changed.setattr(build.toolchain, "installed_version", lambda wheel: "0.18")
        keys.add(build._key())
    assert len(keys) == 4
    assert not any("native" in flag or "march" in flag for flag in build._FLAGS)


_DRAW = """
import numpy as np
from cutegen_core.workloads.gnn.native import build
from cutegen_core.workloads.gnn.sampling.sampler import Sampler
from tests.workloads.gnn.graphs import digest, skewed
print(digest(Sampler(skewed(500, 9000), (5, 60)).sample(np.arange(50), 1)), build.library().name)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_an_installed_compiler_builds_the_same_sampler(tmp_path):
    def draw(environment):
        done = subprocess.run(
            [sys.executable, "-c", _DRAW], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    ours, name = draw({})
    theirs, other = draw({build.SETTING: str(shutil.which("cc")), "CUTEGEN_HOME": str(tmp_path)})
    assert ours == theirs
    assert name != other


@pytest.mark.parametrize("chosen", ["/nothing/cc", "/bin/false"])
def test_a_chosen_compiler_that_cannot_be_run_is_no_reason_for_another(monkeypatch, chosen):
    monkeypatch.setenv(build.SETTING, chosen)
    build.library.cache_clear()
    try:
        with pytest.raises(MachineError, match=f"{build.SETTING}={chosen} cannot be run"):
            build.library()
    finally:
        build.library.cache_clear()


def test_a_compiler_that_fails_says_so_and_leaves_nothing(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\necho sampler.c:1: broken >&2\nexit 1\n')
    compiler.chmod(0o700)
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(build.SETTING, str(compiler))
    build.library.cache_clear()
    try:
        with pytest.raises(MachineError, match=r"does not compile \(exit code 1\):\nsampler.c:1: broken"):
            build.library()
    finally:
        build.library.cache_clear()
    assert list((tmp_path / "home" / "cache" / "gnn-native").iterdir()) == []
