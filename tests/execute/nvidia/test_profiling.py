"""Real output of Nsight Compute and compute-sanitizer 2025.3 (an H200, the kernels of tests/gpu/seeded_defects.cu),
read into records; tools that are missing, refuse, fail or hang; the text a prompt gets."""

import json
import stat
import sys
from pathlib import Path

import pytest

from cutegen_core.execute.nvidia import ncu_pages, nvidia_tools, profiling, sanitizer
from cutegen_core.execute.nvidia.sanitizer import Report
from cutegen_core.propose.prompting import profile_notes
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import (
    KernelProfile,
    LineCost,
    Metric,
    Profile,
)
from tests.patience import SOON_S, wait_until
from tests.places import DATA, ROOT

NVIDIA = DATA / "nvidia"
SOURCE = (ROOT / "tests" / "gpu" / "seeded_defects.cu").read_text()
LINES = json.loads((NVIDIA / "lines.json").read_text())
KERNELS = {
    "_Z14bank_conflictsPKfPfi": "bank_conflicts", "_Z12strided_copyPKfPfi": "strided_copy",
    "_Z11vector_copyILi256EEvPKfPfi": "vector_copy<256>",
}  # fmt: skip


def line_of(mangled, offset):
    return LINES.get(mangled, {}).get(f"{offset:x}", 0)


def quoted(number):
    return SOURCE.splitlines()[number - 1]


# -- Nsight Compute ----------------------------------------------------------------------------------------------------


def test_metrics_have_our_names_and_units():
    rows = ncu_pages.read_raw_page((NVIDIA / "raw.csv").read_text())
    assert [KERNELS[row.kernel] for row in rows] == ["bank_conflicts", "strided_copy", "vector_copy<256>"]
    found = [{m.name: m for m in ncu_pages.choose_metrics(row)} for row in rows]
    assert all(len(metrics) == 20 for metrics in found)
    conflicts, strided, fast = found
    assert conflicts["shared memory cycles lost to bank conflicts"].value == pytest.approx(96.8, abs=0.2)
    assert strided["bytes used per 32 B sector, loads"].value == 4.0
    assert fast["bytes used per 32 B sector, loads"].value == 32.0
    # 2^24 floats in, and as many out minus what stays in the L2
    assert fast["DRAM read"].value == pytest.approx(67.1, abs=0.2)
    assert 30 < fast["duration"].value < 35
    assert fast["DRAM bandwidth"].value == pytest.approx(
        1e3 * (fast["DRAM read"].value + fast["DRAM written"].value) / fast["duration"].value, rel=0.01
    )
    assert fast["registers"].value == 23
    assert fast["warps wait for global or local memory"].value > 80
    assert "warps wait for selected" not in fast


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("usecond", 1e-6), ("Gbyte/s", 1e9), ("byte/ns", 1e9),
        ("Mbyte", 1e6), ("byte", 1.0), ("%", 1.0), ("warp", 1.0), ("register/thread", 1.0), ("", 1.0),
    ],
)  # fmt: skip
def test_units_come_down_to_the_base(unit, scale):
    page = f'==PROF== noise\n"ID","Kernel Name","m"\n"","","{unit}"\n"0","k","1,234.5"\n'
    (row,) = ncu_pages.read_raw_page(page)
    assert row.values["m"] == pytest.approx(1234.5 * scale)


def test_a_page_without_kernels_is_empty_and_missing_counters_are_left_out():
    assert ncu_pages.read_raw_page("==WARNING== No kernels were profiled.\n") == ()
    (row,) = ncu_pages.read_raw_page(
        '"ID","Kernel Name","gpu__time_duration.sum","x"\n"","","ns",""\n"0","k","10","no data"\n'
    )
    assert ncu_pages.choose_metrics(row) == (Metric("duration", pytest.approx(0.01), "us"),)
    assert ncu_pages.read_advice("") == {}
    assert ncu_pages.read_line_costs("", line_of) == ()


def test_advice_puts_the_greatest_gain_first_and_leaves_the_manual_out():
    advice = ncu_pages.read_advice((NVIDIA / "details.csv").read_text())
    assert set(advice) == {"0", "1", "2"}
    assert "bank conflict" in advice["0"][0]
    assert "uncoalesced global accesses" in advice["1"][0]
    assert advice["1"][0].endswith("(estimated gain 87 %)")
    every = [sentence for sentences in advice.values() for sentence in sentences]
    assert all(len(sentences) <= ncu_pages.MAX_ADVICE for sentences in advice.values())
    assert not any("http" in s or "Check the" in s or "See the" in s for s in every)


def test_samples_fall_on_the_lines_that_wait():
    costs = ncu_pages.read_line_costs((NVIDIA / "source.csv").read_text(), line_of)
    assert len(costs) == 3  # printed twice each
    conflicts, strided, fast = costs
    assert "tile[lane][row] =" in quoted(conflicts[0].line)
    assert "x[row * width + column]" in quoted(strided[0].line)
    assert "tanhf" in quoted(fast[0].line)
    assert fast[0].stall == "global or local memory"
    assert [c.samples for c in strided] == sorted((c.samples for c in strided), reverse=True)


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

SPEC = {
    "inputs": {}, "outputs": {"out": 256},
    "program": {"scratch": [{"name": "sums", "nbytes": 64}], "steps": [
        {"function": f"_Z{len(n)}{n}PKfPfi", "kernel": n}
        for n in ("read_past_end", "misaligned", "shared_past_end", "race", "uninitialised", "divergent_barrier")
    ] + [{"function": "_Z14write_past_endILi4EEvPKfPfi", "kernel": "write_past_end<4>"}]},
}  # fmt: skip


def read(name, spec=SPEC, lines=lambda mangled, offset: 0):
    text = (NVIDIA / f"{name}.log").read_text()
    return sanitizer.read_findings(Report(name.split(".")[1], text, {}), spec, lines)


@pytest.mark.parametrize(
    ("name", "kind", "thread", "message"),
    [
        (
            "read_past_end.memcheck",
            "out-of-bounds",
            63,
            "read of 4 bytes of global memory, 1 byte after a buffer of 256 b",
        ),
        ("write_past_end.memcheck", "out-of-bounds", 60, "write of 4 bytes of global memory, 1 byte after a buffer"),
        ("misaligned.memcheck", "misaligned", 3, "read of 16 bytes of global memory at an address that is no multiple"),
        ("shared_past_end.memcheck", "out-of-bounds", 63, "write of 4 bytes of shared memory, past its end"),
        ("race.racecheck", "race", None, "write and read without a barrier between them, line"),
        ("uninitialised.initcheck", "uninitialised", 0, "read of 4 bytes of global memory that nothing was written to"),
        ("divergent_barrier.synccheck", "divergent-barrier", 1, "not all threads reach this barrier"),
    ],
)
def test_each_defect_is_one_finding_at_its_line(name, kind, thread, message):
    (finding,) = read(name)
    defect = name.split(".")[0]
    assert finding.kind == kind
    assert message in finding.message
    assert quoted(finding.line).endswith(f"// {defect}")
    assert finding.kernel.split("<")[0] == defect
    assert finding.thread == (None if thread is None else (thread, 0, 0))


def test_repeated_records_are_counted_and_the_tensor_is_named_by_its_size():
    (write,) = read("write_past_end.memcheck")
    assert write.message.endswith("(4 times)")
    assert write.variable == "out"
    (twice,) = read("write_past_end.memcheck", SPEC | {"outputs": {"out": 256, "other": 256}})
    assert twice.variable == ""
    (race,) = read("race.racecheck")
    assert race.message.endswith("(256 hazards)")


def test_large_numbers_have_commas():
    text = (NVIDIA / "write_past_end.memcheck.log").read_text().replace("of size 256 bytes", "of size 4,000 bytes")
    (finding,) = sanitizer.read_findings(
        Report("memcheck", text, {}), SPEC | {"outputs": {"out": 4000}}, lambda m, o: 0
    )
    assert finding.variable == "out"
    assert "1 byte after a buffer of 4,000 bytes" in finding.message


def test_code_of_a_header_counts_for_the_line_that_called_it():
    text = (NVIDIA / "copy_past_end.memcheck.log").read_text()
    spec = SPEC | {
        "program": {"scratch": [], "steps": [{"function": "_Z13copy_past_endPKfPfi", "kernel": "copy_past_end"}]}
    }
    (inlined,) = sanitizer.read_findings(
        Report("memcheck", text, {}), spec, lambda mangled, offset: 77 if offset == 0x2D0 else 0
    )
    assert (inlined.line, inlined.kernel) == (77, "copy_past_end")
    frame = (
        "=========         Device Frame: _Z13copy_past_endPKfPfi+0x1c0 in candidate.cu:113\n========= \n========= ERROR"
    )
    called = text.replace("========= \n========= ERROR", frame)
    (finding,) = sanitizer.read_findings(Report("memcheck", called, {}), spec, lambda mangled, offset: 0)
    assert (finding.line, finding.kernel) == (113, "copy_past_end")


def test_a_clean_log_has_no_findings():
    assert read("clean_sum.memcheck") == ()


# -- the tools themselves: small programs play them --------------------------------------------------------------------


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a program of that name into an otherwise empty PATH."""
    monkeypatch.setattr(nvidia_tools, "_USUAL", ())
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name, body):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC | {"cubin": str(tmp_path / "none.cubin")}))
    return path


def test_a_missing_tool_says_how_to_get_it(tool, spec):
    with pytest.raises(MachineError, match=r"compute-sanitizer is not installed: install .*CUDA Toolkit"):
        sanitizer.check(spec)
    with pytest.raises(MachineError, match=r"ncu is not installed: install Nsight Compute"):
        profiling.profile(spec, "w")


def test_no_permission_names_the_remedy(tool, spec):
    tool(
        "ncu",
        "print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance')",
    )
    with pytest.raises(MachineError, match="NVreg_RestrictProfilingToAdminUsers=0") as error:
        profiling.profile(spec, "w")
    assert "CAP_SYS_ADMIN" in str(error.value)
    assert "developer.nvidia.com/ERR_NVGPUCTRPERM" in str(error.value)


@pytest.mark.parametrize(
    ("printed", "match"),
    [
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "failed: Failed to initialize the profiler"),
        (
            '{"ended": "fault", "name": "CUDA_ERROR_ILLEGAL_ADDRESS"}',
            "did not run under Nsight Compute.*ILLEGAL_ADDRESS",
        ),
        ("==WARNING== No kernels were profiled.", "wrote no report: ==WARNING== No kernels"),
    ],
)
def test_a_profiler_that_fails_says_why(tool, spec, printed, match):
    tool("ncu", f"print({printed!r})")
    with pytest.raises(MachineError, match=match):
        profiling.profile(spec, "w")


def test_a_tool_that_hangs_is_stopped_with_all_it_started(tool, spec, tmp_path):
    beacon = tmp_path / "child"
    tool("ncu", f"pid = os.fork()\nopen({str(beacon)!r}, 'a').write(str(os.getpid()) + ' ')\ntime.sleep(60)")
    with pytest.raises(MachineError, match="did not end within 3 s"):
        profiling.profile(spec, "w", timeout_s=3.0)
    pids = beacon.read_text().split()
    assert len(pids) == 2
    wait_until(lambda: not any(runs(pid) for pid in pids), pids, SOON_S)


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


LOG = "open(sys.argv[sys.argv.index('--log-file') + 1], 'w').write({!r})"


def test_the_sanitizer_reads_its_log_and_nothing_that_is_printed(tool, spec):
    text = (NVIDIA / "read_past_end.memcheck.log").read_text()
    tool("compute-sanitizer", f"print('========= ERROR SUMMARY: 0 errors')\n{LOG.format(text)}")
    (finding,) = sanitizer.check(spec, ("memcheck",))
    assert finding.kind == "out-of-bounds"


def test_a_sanitizer_that_breaks_is_the_machines_fault(tool, spec):
    tool("compute-sanitizer", LOG.format("========= Internal Sanitizer Error") + "\nprint('sorry')")
    with pytest.raises(MachineError, match=r"synccheck failed: .*Internal Sanitizer Error.*sorry"):
        sanitizer.check(spec, ("synccheck",))


@pytest.mark.parametrize(
    ("word", "kind"),
    [('{"ended": "unfinished"}', "timeout"), ('{"ended": "fault", "name": "E", "text": "t"}', "fault")],
)
def test_a_run_that_ends_badly_is_a_finding_even_when_no_tool_complains(tool, spec, word, kind):
    tool("compute-sanitizer", LOG.format("========= ERROR SUMMARY: 0 errors") + f"\nprint({word!r})")
    found = sanitizer.check(spec, ("memcheck", "racecheck"))
    assert [f.kind for f in found] == [kind]


# -- prompts -----------------------------------------------------------------------------------------------------------


def test_a_profile_is_short_and_quotes_the_lines():
    text = (NVIDIA / "source.csv").read_text()
    rows, lines = ncu_pages.read_raw_page((NVIDIA / "raw.csv").read_text()), ncu_pages.read_line_costs(text, line_of)
    advice = ncu_pages.read_advice((NVIDIA / "details.csv").read_text())
    kernels = tuple(
        KernelProfile(KERNELS[r.kernel], ncu_pages.choose_metrics(r), advice[r.id], cost)
        for r, cost in zip(rows, lines, strict=True)
    )
    profile = Profile("Nsight Compute 2025.3.1.0", "large", kernels)
    note = profile_notes.text(profile, SOURCE)
    assert note == profile_notes.text(profile, SOURCE)
    assert "by Nsight Compute 2025.3.1.0 on workload large: " in note.splitlines()[0]
    assert "bytes used per 32 B sector, loads 4" in note
    assert "| out[row * width + column] = x[row * width + column] * 2.0f;" in note
    assert len(note) < 9000
    assert "line 900:" in profile_notes.text(
        Profile("t", "w", (KernelProfile("k", (), (), (LineCost(900, 3),)),)), SOURCE
    )
