"""The key of a cached verdict: what can change a verdict changes it, and nothing else does."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from cutegen_core.evaluate import verdict_key
from cutegen_core.evaluate.verdict_key import ROOMS, judge_digest
from cutegen_core.machine import toolchain
from cutegen_core.machine.package import PACKAGE
from cutegen_core.machine.source_digest import digest

VERSIONS = {"torch": "2.13.0", "nvidia-cutlass": "4.2.0.0"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A copy of the package."""
    copied = tmp_path_factory.mktemp("copy") / "cutegen_core"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.mark.parametrize(
    "name",
    [
        "judge/correctness.py", "judge/reference_process/main.py", "execute/emulator/installation.py",
        "execute/compiler/prelude/std/cmath", "execute/executors/gpu.py", "execute/cuda/host.py",
        "kernel/plan_read.py", "evaluate/stages/testing.py", "records/trial.py", "machine/device.py",
    ],
)  # fmt: skip
def test_a_changed_file_of_the_judge_changes_the_key(whole, name):
    path = whole / name
    before, text = digest(whole, ROOMS, VERSIONS), path.read_text()
    path.write_text(text + "\n")
    assert digest(whole, ROOMS, VERSIONS) != before
    path.write_text(text)
    assert digest(whole, ROOMS, VERSIONS) == before


def test_a_new_a_lost_and_a_moved_file_change_the_key(whole):
    keys = [digest(whole, ROOMS, VERSIONS)]
    new = whole / "judge" / "new.py"
    new.write_text("")
    keys.append(digest(whole, ROOMS, VERSIONS))
    new.rename(whole / "judge" / "gpu" / "new.py")
    keys.append(digest(whole, ROOMS, VERSIONS))
    assert len(set(keys)) == 3
    (whole / "judge" / "gpu" / "new.py").unlink()
    assert digest(whole, ROOMS, VERSIONS) == keys[0]


def test_a_version_of_the_toolchain_changes_the_key(whole):
    newer = VERSIONS | {"torch": "2.13.1"}
    assert (
        len({digest(whole, ROOMS, VERSIONS), digest(whole, ROOMS, newer), digest(whole, ROOMS, {"torch": "2.13.0"})})
        == 3
    )


def test_nothing_else_changes_the_key(whole, tmp_path):
    before = digest(whole, ROOMS, VERSIONS)
    for name in ("views/wording.py", "session/loop.py", "share/exports/html.py", "problems/library.py", "cli.py"):
        path = whole / name
        path.write_text(path.read_text() + "\n# changed\n")
    (whole / "judge" / "__pycache__").mkdir()
    (whole / "judge" / "__pycache__" / "correctness.cpython-311.pyc").write_bytes(b"compiled")
    (whole / "judge" / ".correctness.py.swp").write_bytes(b"an editor's")
    os.utime(whole / "judge" / "correctness.py", (0, 0))
    elsewhere = tmp_path / "moved"
    shutil.copytree(whole, elsewhere)
    assert digest(whole, ROOMS, dict(reversed(VERSIONS.items()))) == digest(elsewhere, ROOMS, VERSIONS) == before


def test_the_key_of_this_process_names_every_wheel_and_is_made_once(monkeypatch):
    seen = []
    monkeypatch.setattr(verdict_key, "digest", lambda *given: seen.append(given) or "made")
    judge_digest.cache_clear()
    try:
        assert judge_digest() == judge_digest() == "made"
    finally:
        judge_digest.cache_clear()
    ((package, rooms, versions),) = seen
    assert (package, rooms) == (PACKAGE, ROOMS)
    assert {"torch", "numpy", *toolchain.WHEELS} <= versions.keys()
    assert all(versions.values())
    assert all((PACKAGE / room).is_dir() for room in ROOMS)


def test_it_is_made_fast_and_without_importing_torch():
    code = "import sys, cutegen_core.evaluate.verdict_key as key; print(key.judge_digest(), 'torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == [judge_digest(), "False"]
    judge_digest.cache_clear()
    begun = time.process_time()
    judge_digest()
    assert time.process_time() - begun < 2
