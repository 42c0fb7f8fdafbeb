"""The native code is built once, whole or not at all, and for any processor of its kind."""

import os
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
    for name in ("sampler.c", "graph.c", "rows.h"):
        (tmp_path / name).write_bytes((build._HERE / name).read_bytes())
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


def test_a_compiler_that_fails_says_so_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, "-DID=;"))
    build.library.cache_clear()
    try:
        with pytest.raises(MachineError, match="does not compile"):
            build.library()
    finally:
        build.library.cache_clear()
    assert list((tmp_path / "cache" / "gnn-native").iterdir()) == []
