"""Profile one run of a candidate with Nsight Compute (stage PROFILE) and keep what a person and a prompt can use.

1. ncu watches the standalone runner (`cuda.standalone`) and replays each kernel of the plan as often as its sections
   need. It flushes the caches before each pass and leaves the clocks unchanged.
2. `ncu_pages` reads three pages of the report: raw metrics, rule advice, samples by instruction.
3. The disassembly maps instructions to lines of the kernel file, since kernels are always compiled with -lineinfo. A
   header's instruction counts for the candidate's line at which it was inlined.

Reading counters needs permission (https://developer.nvidia.com/ERR_NVGPUCTRPERM); the error tells how to get it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from cutegen_core.execute.nvidia import ncu_pages, nvidia_tools
from cutegen_core.execute.nvidia.sass_lines import SassLines
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import KernelProfile, Profile

PERMISSION = (
    "NVIDIA's driver lets only administrators read the GPU's performance counters. Either run the workbench as root or "
    "with CAP_SYS_ADMIN (in a container: --cap-add=SYS_ADMIN), or let everybody read them: write "
    "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia-profiling.conf, rebuild the "
    "initial ramdisk (update-initramfs -u, or dracut -f) and restart. See https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
PARAMETERS = Path("/proc/driver/nvidia/params")

_PAGE_S = 60.0
_ERROR = re.compile(r"^==ERROR==\s*(.*)$", re.MULTILINE)


def profile(spec: Path, workload: str, timeout_s: float = 180.0) -> Profile:
    """Profile every launch of the plan that the spec describes.

    Args:
        spec: written by `cuda.standalone.write_spec`, with outputs poisoned or not.
        timeout_s: limit of the whole collection; large kernels are replayed about thirty times.

    Raises:
        MachineError: ncu is missing, may not read the counters, or failed; or the run failed.
    """
    ncu = nvidia_tools.require(nvidia_tools.NCU)
    description = json.loads(spec.read_text())
    with tempfile.TemporaryDirectory(prefix="cutegen-ncu-") as folder:
        report = Path(folder) / "report.ncu-rep"
        _collect(ncu, spec, report, timeout_s)
        raw = ncu_pages.read_raw_page(_print_page(ncu, report, "raw"))
        advice = ncu_pages.read_advice(_print_page(ncu, report, "details"))
        source = _print_page(ncu, report, "source", "--print-source", "sass")
    lines = ncu_pages.read_line_costs(source, SassLines(Path(description["cubin"])).find_line)
    names = {step["function"]: step["kernel"] for step in description["program"]["steps"]}
    kernels = [
        KernelProfile(names[row.kernel], ncu_pages.choose_metrics(row), advice.get(row.id, ()), cost)
        for row, cost in zip(raw, lines or ((),) * len(raw), strict=False)
        if row.kernel in names
    ]
    if not kernels:
        raise MachineError("Nsight Compute profiled no kernel of the plan.")
    return Profile(f"Nsight Compute {nvidia_tools.read_version(ncu)}".strip(), workload, tuple(kernels))


def try_out(timeout_s: float = 60.0) -> str:
    """Try the profiler on a kernel of the workbench; return one line about it.

    Raises:
        MachineError: ncu is missing, may not read the counters, or failed.
    """
    ncu = nvidia_tools.require(nvidia_tools.NCU)
    command = [
        str(ncu), "--config-file", "off", "--rename-kernels", "off", "--clock-control", "none",
        "--metrics", "dram__bytes_read.sum", sys.executable, "-m", "cutegen_core.execute.cuda.flush",
    ]  # fmt: skip
    ran = nvidia_tools.run(command, timeout_s=timeout_s)
    _raise_errors(ran.output)
    if ran.limit or "dram__bytes_read.sum" not in ran.output:
        raise MachineError(f"Nsight Compute read no counter: {ran.output.strip()[-600:] or '(no output)'}")
    return f"Nsight Compute {nvidia_tools.read_version(ncu)} reads the counters"


def may_read_counters() -> bool | None:
    """Tell whether all users may read the counters; None if the driver does not report it (root always may)."""
    found = re.search(r"RmProfilingAdminOnly:\s*(\d)", PARAMETERS.read_text()) if PARAMETERS.exists() else None
    return None if found is None else found[1] == "0"


def _collect(ncu: Path, spec: Path, report: Path, timeout_s: float) -> None:
    sections = [word for section in ncu_pages.SECTIONS for word in ("--section", section)]
    command = [
        str(ncu), "--config-file", "off", "--rename-kernels", "off", "--clock-control", "none",
        "--target-processes", "application-only", "--force-overwrite", "--export", str(report), *sections,
        *nvidia_tools.standalone_command(spec),
    ]  # fmt: skip
    ran = nvidia_tools.run(command, timeout_s=timeout_s)
    if ran.limit:
        raise MachineError(f"Nsight Compute did not end within {timeout_s:g} s; profile a smaller workload.")
    _raise_errors(ran.output)
    if not report.exists():
        raise MachineError(f"Nsight Compute wrote no report: {ran.output.strip()[-600:] or '(no output)'}")


def _print_page(ncu: Path, report: Path, page: str, *options: str) -> str:
    command = [
        str(ncu), "--config-file", "off", "--rename-kernels", "off", "--import", str(report), "--csv", "--page", page,
        "--print-kernel-base", "mangled", *options,
    ]  # fmt: skip
    ran = nvidia_tools.run(command, timeout_s=_PAGE_S)
    if ran.limit:
        raise MachineError(f"Nsight Compute did not print its {page} page within {_PAGE_S:g} s.")
    _raise_errors(ran.output)
    return ran.output


def _raise_errors(output: str) -> None:
    """Raise MachineError for an error that ncu printed or a run that the runner reported as failed."""
    if "ERR_NVGPUCTRPERM" in output:
        raise MachineError(PERMISSION)
    ended = re.search(r'^\{"ended": "(?!well)(\w+)".*$', output, re.MULTILINE)
    if ended:
        raise MachineError(f"the kernel did not run under Nsight Compute: {ended[0][:400]}")
    errors = _ERROR.findall(output)
    if errors:
        raise MachineError(f"Nsight Compute failed: {' '.join(errors)[:600]}")
