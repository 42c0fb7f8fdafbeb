"""Theoretical occupancy: known values, and thousands of cases against NVIDIA's own calculator."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from cutegen_core.execute.compiler.occupancy import compute_occupancy
from cutegen_core.machine import toolchain
from cutegen_core.machine.device import KNOWN, Device, choose_device
from cutegen_core.records.errors import UsageError
from cutegen_core.records.launch import Launch
from cutegen_core.records.trial import KernelResources
from tests.c_programs import build


def of(device: Device, block: int, registers: int, smem_static: int = 0, smem_dynamic: int = 0, grid: int = 1000):
    launch = Launch("k", (grid, 1, 1), (block, 1, 1), smem_dynamic, ())
    return compute_occupancy(launch, KernelResources("k", "void k()", registers, 0, 0, 0, smem_static), device, "w")


@pytest.mark.parametrize(
    ("arch", "block", "registers", "smem", "blocks", "share", "limiter"),
    [
        ("sm_90a", 256, 32, 0, 8, 1.0, "threads"),
        ("sm_90a", 256, 33, 0, 6, 0.75, "registers"),
        ("sm_90a", 256, 16, 0, 8, 1.0, "threads"),
        ("sm_90a", 32, 16, 0, 32, 0.5, "blocks"),
        ("sm_90a", 384, 168, 232448, 1, 0.1875, "registers"),
        ("sm_90a", 128, 32, 100 << 10, 2, 0.125, "shared memory"),
        ("sm_80", 1024, 64, 0, 1, 0.5, "registers"),
        ("sm_80", 1024, 65, 0, 0, 0.0, "registers"),
        ("sm_86", 128, 40, 0, 12, 1.0, "threads"),
        ("sm_86", 64, 16, 0, 16, 2 / 3, "blocks"),
        ("sm_89", 64, 16, 0, 24, 1.0, "threads"),
        ("sm_120a", 256, 32, 100 << 10, 0, 0.0, "shared memory"),
    ],
)
def test_known_values(arch, block, registers, smem, blocks, share, limiter):
    got = of(KNOWN[arch], block, registers, smem_dynamic=smem)
    assert (got.blocks_per_sm, got.limiter) == (blocks, limiter)
    assert got.occupancy == pytest.approx(share)


def test_waves_and_shared_memory():
    got = of(KNOWN["sm_90a"], 256, 32, smem_static=1000, smem_dynamic=24, grid=132 * 8 * 2)
    assert (got.waves, got.smem_bytes) == (2.0, 1024)


def test_agrees_with_nvidias_calculator(tmp_path):
    cases = _cases(4000)
    expected = _ask_nvidia(cases, tmp_path)
    for (arch, block, registers, fixed, dynamic), blocks in zip(cases, expected, strict=True):
        got = of(KNOWN[arch], block, registers, fixed, dynamic)
        assert got.blocks_per_sm == blocks, (arch, block, registers, fixed, dynamic, got)


def test_targets():
    assert choose_device("sm_80").arch == "sm_80"
    assert choose_device().arch in KNOWN
    with pytest.raises(UsageError, match="choose one of sm_80"):
        choose_device("sm_70")


def _cases(count: int) -> list[tuple[str, int, int, int, int]]:
    draw = random.Random(20)
    return [
        (arch, draw.randint(1, 1024), draw.randint(1, 255), draw.choice((0, draw.randint(0, 48 << 10))), dynamic)
        for arch in KNOWN
        for dynamic in (draw.choice((0, draw.randint(0, 180 << 10))) for _ in range(count // len(KNOWN)))
    ]


def _ask_nvidia(cases, folder: Path) -> list[int]:
    header = next(d for d in toolchain.find_include_dirs() if (d / "cuda_occupancy.h").exists())
    source = Path(__file__).with_name("occupancy_oracle.c")
    program = build(source, folder / "oracle", f"-I{header}")
    lines = []
    for arch, block, registers, fixed, dynamic in cases:
        device = KNOWN[arch]
        major, minor = re.fullmatch(r"sm_(\d+)(\d)a?", arch).groups()
        limits = (major, minor, device.threads_per_sm, device.smem_max, device.smem_sm_bytes)
        lines.append(" ".join(str(x) for x in (*limits, block, registers, fixed, dynamic)))
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]
