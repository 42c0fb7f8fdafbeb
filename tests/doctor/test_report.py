"""The doctor on this machine, and on broken ones."""

import os
import resource
import stat
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from cutegen_core.doctor import gpu, report
from cutegen_core.doctor.check import CheckState, SystemCheck
from cutegen_core.evaluate.roofline import peaks
from cutegen_core.execute.cuda import lock
from cutegen_core.execute.nvidia import nvidia_tools, profiling
from cutegen_core.machine import device, toolchain
from cutegen_core.machine.sandbox import sandbox
from cutegen_core.machine.sandbox.policy import MAX_LEVEL_VARIABLE
from cutegen_core.records import as_json
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import Peaks


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    return tmp_path


def named(name: str) -> SystemCheck:
    return next(check for check in report.run_checks() if check.name == name)


def test_a_wheel_that_is_missing_for_a_moment_is_found_and_one_that_comes_later_too(monkeypatch, tmp_path):
    """Another program installs packages meanwhile."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(toolchain, "WHEELS", {"late-wheel": "late-wheel"})
    toolchain._all_versions.cache_clear()

    def arrive(version: str) -> None:
        folder = tmp_path / "late_wheel-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: late-wheel\nVersion: {version}\n")

    monkeypatch.setattr(toolchain, "MOMENT_S", 0.0)
    assert toolchain.installed_versions() == {"late-wheel": ""}
    monkeypatch.setattr(toolchain.time, "sleep", lambda _: arrive("1"))
    assert toolchain.installed_versions() == {"late-wheel": "1"}, "it was looked for twice"
    toolchain._all_versions.cache_clear()


def test_this_machine_has_all_that_is_needed(home):
    checks = report.run_checks()
    assert [c for c in checks if c.state is CheckState.MISSING] == []
    assert all(c.fix for c in checks if c.state is not CheckState.OK)
    found = {c.name: c.detail for c in checks}
    assert "nvidia-cutlass 4.2.0" in found["Compilers and headers"]
    assert "libnvrtc.so.13" in found["PyTorch"]
    assert str(home) in found["Disk"]


def test_it_is_fast_and_imports_no_torch(home):
    code = (
        "import sys; from cutegen_core.doctor.report import run_checks; run_checks(); assert 'torch' not in sys.modules"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 4  # about 0.3 s of a processor


def test_a_missing_package_names_the_pip_line(home, monkeypatch):
    versions = dict(toolchain.installed_versions()) | {"nvidia-cutlass": ""}
    monkeypatch.setattr(toolchain, "installed_versions", lambda: versions)
    check = named("Compilers and headers")
    assert (check.state, check.fix) == (CheckState.MISSING, 'python -m pip install "nvidia-cutlass==4.2.0.0"')


def test_an_untested_version_is_a_warning(home, monkeypatch):
    versions = dict(toolchain.installed_versions()) | {"ziglang": "0.16.0"}
    monkeypatch.setattr(toolchain, "installed_versions", lambda: versions)
    check = named("Compilers and headers")
    assert (check.state, check.fix) == (CheckState.WARNING, 'python -m pip install "ziglang>=0.17,<0.18"')


def test_a_weaker_sandbox_is_a_warning(home, monkeypatch):
    monkeypatch.setenv(MAX_LEVEL_VARIABLE, "none")
    sandbox.probe_level.cache_clear()
    try:
        check = named("Sandbox")
    finally:
        monkeypatch.delenv(sandbox.MAX_LEVEL_VARIABLE)
        sandbox.probe_level.cache_clear()
    assert check.state is CheckState.WARNING
    assert "only resource limits" in check.detail
    assert "landlock" in check.fix


def test_a_file_missing_from_a_package_is_the_machines_fault():
    with pytest.raises(MachineError, match="--force-reinstall --no-deps"):
        toolchain._find("nvidia-cutlass", "cutlass_library/no/such/header")


# -- a machine with a GPU: what can be asked without one ---------------------------------------------------------------

H200 = replace(device.KNOWN["sm_90a"], name="NVIDIA H200", present=True, uuid="GPU-of-a-test", driver="13.0")


def test_every_gap_of_a_gpu_machine_has_its_fix(home, monkeypatch, tmp_path):
    monkeypatch.setattr(nvidia_tools, "_USUAL", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = {name: report._run_check(name, check) for name, check in gpu.list_checks(H200)}
    assert all(c.fix for c in checks.values() if c.state is not CheckState.OK)
    assert "developer.nvidia.com/nsight-compute" in checks["Nsight Compute"].fix
    assert "CUDA Toolkit" in checks["compute-sanitizer"].fix
    assert "cutegen doctor --measure" in checks["Measured peaks"].fix


@pytest.mark.skipif(device.detect() is not None, reason="this machine's driver answers")
def test_a_driver_that_does_not_answer_is_said(home):
    check = report._run_check("GPU now", dict(gpu.list_checks(H200))["GPU now"])
    assert check.state is CheckState.MISSING
    assert "NVIDIA driver did not answer nvmlInit" in check.detail
    with pytest.raises(MachineError, match="no GPU in this machine"):
        report.measure()


@pytest.mark.skipif("+cpu" not in toolchain.installed_version("torch"), reason="torch with CUDA")
@pytest.mark.parametrize(("driver", "wheel"), [("13.0", "cu130"), ("12.8", "cu128"), ("12.4", "cu126")])
def test_a_torch_without_cuda_is_repaired_for_this_driver(driver, wheel):
    check = gpu.check_torch_cuda(replace(H200, driver=driver))
    assert check.state is CheckState.WARNING
    assert check.fix.endswith(f"torch --index-url https://download.pytorch.org/whl/{wheel}")


def test_counters_for_administrators_only_name_the_remedy(monkeypatch, tmp_path):
    ncu, params = tmp_path / "ncu", tmp_path / "params"
    ncu.touch()
    ncu.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profiling, "PARAMETERS", params)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    params.write_text("EnableMSI: 1\nRmProfilingAdminOnly: 1\n")
    check = gpu.check_profiler()
    assert check.state is CheckState.WARNING
    assert "NVreg_RestrictProfilingToAdminUsers=0" in check.fix
    params.write_text("RmProfilingAdminOnly: 0\n")
    assert gpu.check_profiler().state is CheckState.OK
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    params.write_text("RmProfilingAdminOnly: 1\n")
    assert gpu.check_profiler().state is CheckState.OK


def test_who_holds_the_gpu_is_named():
    assert "free" in gpu.check_lock(H200).detail
    with lock.hold(H200.uuid, "timing relu"):
        detail = gpu.check_lock(H200).detail
    assert f"process {os.getpid()}" in detail
    assert "timing relu" in detail
    lock.path(H200.uuid).unlink()


def test_peaks_are_kept_per_device_and_a_broken_record_is_measured_again(home):
    assert peaks.load(H200) is None
    found = Peaks(H200.name, 4.2e12, 4.6e12, {"fp32": 51e12}, "a copy", time.time() - 3 * 86400, {"fp32": 66e12})
    peaks._path(H200).write_text(as_json.dump(found))
    assert peaks.load(H200) == found
    assert peaks.load(replace(H200, uuid="GPU-another")) is None
    check = gpu.check_peaks(H200)
    assert check.state is CheckState.OK
    assert "copy 4.20 TB/s" in check.detail
    assert "3 days ago" in check.detail
    peaks._path(H200).write_text("{}")
    assert peaks.load(H200) is None
    with pytest.raises(MachineError, match="not in this machine"):
        peaks.measure(device.KNOWN["sm_80"])
