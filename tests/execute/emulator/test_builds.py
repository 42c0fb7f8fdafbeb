"""Both builds of a candidate come of one front end, and differ only in what is checked and what is contracted."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from cutegen_core.execute.emulator import build, compiling, host_compiler, installation, machine_code
from cutegen_core.execute.executors.cpu import CpuExecutor
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.records.errors import MachineError
from cutegen_core.records.trial import Status
from tests.adversarial.corpus import named
from tests.execute.emulator.emulated import Harness, kernel, not_asked, one

HEAD = "__global__ void f(float const* x, float* out, int n) {\n"
GUARDED = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) "


def _symbols(path: Path) -> set[str]:
    with open(path, "rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        return {symbol.name for symbol in table.iter_symbols()}


def test_one_front_end_makes_both_builds(executor: CpuExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []

    def run(installed, command, scratch, timeout_s):  # type: ignore[no-untyped-def]
        commands.append(command)
        return compiling.run_compiler(installed, command, scratch, timeout_s)

    for module in ("build", "machine_code"):
        monkeypatch.setattr(f"cutegen_core.execute.emulator.{module}.run_compiler", run)
    text = kernel("f", f"{HEAD}{GUARDED}out[i] = x[i] * 3.25f + 17.5f;\n}}\n")
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(executor.build, parse(text), {}, not_asked, checked=way) for way in (True, False)]
        checked, plain = (each.result() for each in asked)
    assert checked.path
    assert plain.path
    assert sum("candidate.cpp" in command for command in commands) <= 1  # none where an earlier run's builds are kept
    assert {"__tsan_read4", "__tsan_write4"} <= _symbols(checked.path)
    assert not {name for name in _symbols(plain.path) if re.match(r"__tsan_.*(read|write)", name)}
    again = executor.build(parse(text), {}, not_asked, checked=True)
    assert again.cached
    assert again.path == checked.path


def test_only_the_plain_build_contracts(harness: Harness) -> None:
    if not host_compiler.has_fma():
        pytest.skip("this processor has no FMA")
    x = np.float32([1 + 2**-12] * 32)
    text = kernel("f", f"{HEAD}{GUARDED}out[i] = x[i] * x[i] - 1.00048828125f;\n}}\n")
    plan, out = one("f", 1, 32, "x:float32", "out:float32", 32), {"out": np.zeros(32, np.float32)}
    found = {way: harness.run(text, {"x": x}, out, plan, checked=way).outputs["out"][0] for way in (False, True)}
    assert found == {False: np.float32(2**-24), True: 0}


def test_a_misaligned_vector_is_named_in_a_plain_run(harness: Harness) -> None:
    body = "  auto const* v = reinterpret_cast<float4 const*>(x + 1);\n  out[threadIdx.x] = v[threadIdx.x].y;\n}\n"
    plan, out = one("f", 1, 4, "x:float32", "out:float32", 4), {"out": np.zeros(4, np.float32)}
    ran = harness.run(kernel("f", HEAD + body), {"x": np.ones(32, np.float32)}, out, plan)
    assert ran.status is Status.MEMORY_ERROR
    assert ran.finding.kind == "misaligned"
    assert ran.finding.variable == "x"


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_an_access_whose_value_nobody_needs_races_all_the_same(harness: Harness, order: str) -> None:
    """Optimised a second time, the read was gone, and the race with it."""
    text = named("a __device__ array between blocks").source
    plan, out = one("f", 8, 32, "x:float32", "out:float32", 256), {"out": np.zeros(256, np.float32)}
    ran = harness.run(text, {"x": np.ones(256, np.float32)}, out, plan, checked=True, order=order)
    assert ran.status is Status.MEMORY_ERROR
    assert (ran.finding.kind, ran.finding.variable) == ("race", "kept")


def test_what_a_check_tells_its_handler_is_no_variable_of_the_kernel(executor: CpuExecutor) -> None:
    """It would keep the blocks of a plain run in one process, and refuse cooperative launches."""
    text = kernel("f", f"{HEAD}{GUARDED}out[i] = x[i] + 2;\n}}\n")
    for way in (True, False):
        built = executor.build(parse(text), {}, not_asked, checked=way)
        assert built.path
        with open(built.path, "rb") as file:
            sections = {s.name: s["sh_size"] for s in ELFFile(file).iter_sections()}
        assert not sections.get(".data")
        assert not sections.get(".bss")
    assert machine_code.image_name(checked=True) != machine_code.image_name(checked=False)


def test_an_error_in_a_header_is_named_by_the_line_that_includes_it() -> None:
    log = (
        "In file included from candidate.cu:14:\nIn file included from /cccl/cuda/atomic:24:\n"
        "/cccl/cuda/std/atomic:57:28: error: no assembly here\n/cccl/cuda/std/atomic:50:48: note: expanded from macro\n"
        "/cccl/cuda/std/atomic:60:1: error: nor here\n"
        "candidate.cu:20:3: error: an own one\n/cccl/x:1:1: error: elsewhere\n"
    )
    found = build.read_diagnostics(log, ("f",))
    assert [d.line for d in found] == [14, 14, 20, 0]
    assert found[0].message == "the emulator cannot read the header that line 14 includes: no assembly here"
    assert found[2].message == "an own one"


def test_a_full_disk_is_no_fault_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words alone say nothing: a kernel prints them with #error."""
    said = "candidate.cpp:3:2: error: No space left on device\n"
    monkeypatch.setattr(installation, "_LEAST_FREE_BYTES", 0)
    installation.raise_if_full(said, tmp_path)
    monkeypatch.setattr(installation, "_LEAST_FREE_BYTES", 1 << 62)
    installation.raise_if_full("candidate.cpp:3:2: error: expected ';'\n", tmp_path)
    with pytest.raises(MachineError, match="no space is left in"):
        installation.raise_if_full(said, tmp_path)
