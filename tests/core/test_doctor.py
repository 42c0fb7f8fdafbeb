"""The doctor on this machine, and on broken ones."""

import subprocess
import sys
import time

import pytest

from cutegen_core import doctor, sandbox, toolchain
from cutegen_core.doctor import State
from cutegen_core.errors import MachineError


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    return tmp_path


def named(name: str) -> doctor.Check:
    return next(check for check in doctor.doctor() if check.name == name)


def test_this_machine_has_all_that_is_needed(home):
    checks = doctor.doctor()
    assert [c for c in checks if c.state is State.MISSING] == []
    assert all(c.fix for c in checks if c.state is not State.OK)
    found = {c.name: c.detail for c in checks}
    assert "nvidia-cutlass 4.2.0" in found["Compilers and headers"]
    assert "libnvrtc.so.13" in found["PyTorch"]
    assert str(home) in found["Disk"]


def test_it_is_fast_and_imports_no_torch(home):
    code = "import sys; from cutegen_core.doctor import doctor; doctor(); assert 'torch' not in sys.modules"
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - started < 4  # about 0.3 s on an idle machine


def test_a_missing_package_names_the_pip_line(home, monkeypatch):
    versions = dict(toolchain.versions()) | {"nvidia-cutlass": ""}
    monkeypatch.setattr(toolchain, "versions", lambda: versions)
    check = named("Compilers and headers")
    assert (check.state, check.fix) == (State.MISSING, 'python -m pip install "nvidia-cutlass==4.2.0.0"')


def test_an_untested_version_is_a_warning(home, monkeypatch):
    versions = dict(toolchain.versions()) | {"ziglang": "0.16.0"}
    monkeypatch.setattr(toolchain, "versions", lambda: versions)
    check = named("Compilers and headers")
    assert (check.state, check.fix) == (State.WARNING, 'python -m pip install "ziglang>=0.17,<0.18"')


def test_a_weaker_sandbox_is_a_warning(home, monkeypatch):
    monkeypatch.setenv(sandbox.MAX_LEVEL_VARIABLE, "none")
    sandbox.available.cache_clear()
    try:
        check = named("Sandbox")
    finally:
        monkeypatch.delenv(sandbox.MAX_LEVEL_VARIABLE)
        sandbox.available.cache_clear()
    assert check.state is State.WARNING
    assert "resource limits only" in check.detail
    assert "landlock" in check.fix


def test_a_file_missing_from_a_package_is_the_machines_fault():
    with pytest.raises(MachineError, match="--force-reinstall --no-deps"):
        toolchain._find("nvidia-cutlass", "cutlass_library/no/such/header")
