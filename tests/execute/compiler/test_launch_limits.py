"""What a compiled kernel demands of its launches is read from the cubin, on every architecture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cutegen_core.execute.compiler.compilation import ARCHITECTURES, Compiler
from cutegen_core.execute.compiler.launch_bounds import LaunchBounds, read_launch_bounds
from cutegen_core.execute.compiler.launch_limits import find_launch_errors
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import KNOWN
from cutegen_core.records.launch import Dim3, Launch, LaunchPlan
from cutegen_core.records.trial import KernelResources, Status
from tests.adversarial.files import relu
from tests.shared_tools import SharedTools

OTHERS = [a if a == "sm_90a" else pytest.param(a, marks=pytest.mark.thorough) for a in ARCHITECTURES]


@pytest.fixture(params=OTHERS)
def compiler(request: pytest.FixtureRequest, shared: SharedTools) -> Iterator[Compiler]:
    if request.param == "sm_90a":
        yield shared.compiler()
        return
    made = Compiler(request.param)
    yield made
    made.close()


def _bounds(compiler: Compiler, head: str) -> LaunchBounds:
    made = compiler.compile(parse(relu().replace("__global__", f"__global__ {head}")))
    assert made.status is Status.PASSED, made.message
    assert made.lowered is not None
    return read_launch_bounds(made.cubin)[made.lowered["f"]]


@pytest.mark.thorough
def test_the_cubin_of_every_architecture_shows_the_bounds(compiler: Compiler) -> None:
    clusters = KNOWN[compiler.arch].arch not in ("sm_80", "sm_86", "sm_89")
    assert _bounds(compiler, "") == LaunchBounds()
    assert _bounds(compiler, "__launch_bounds__(96)") == LaunchBounds(max_threads=96)
    if clusters:
        assert _bounds(compiler, "__launch_bounds__(96, 1, 4)").max_cluster == 4
        assert _bounds(compiler, "__cluster_dims__(2, 2, 1)").cluster == (2, 2, 1)
        assert _bounds(compiler, "__block_size__((64, 2, 1))").block == (64, 2, 1)


def _errors(
    arch: str, *, registers: int = 32, static: int = 0, smem: int = 0, block: Dim3 = (256, 1, 1),
    grid: Dim3 = (8, 1, 1), cluster: Dim3 = (1, 1, 1), cooperative: bool = False,
) -> list[str]:  # fmt: skip
    launch = Launch("f", grid, block, smem, (), cluster, cooperative, 7)
    kernel = KernelResources("f", "f()", registers, 0, 0, 0, static)
    found = find_launch_errors(LaunchPlan((launch,), (), ()), {"f": kernel}, {"f": LaunchBounds()}, KNOWN[arch])
    assert all(d.line == 7 for d in found)
    return [d.message for d in found]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_each_limit_holds_up_to_its_edge_on_every_device(arch: str) -> None:
    device = KNOWN[arch]
    room = device.threads_per_sm // 256 * device.sm_count
    assert not _errors(arch, registers=64, block=(1024, 1, 1))
    assert "65 registers" in _errors(arch, registers=65, block=(1024, 1, 1))[0]
    assert not _errors(arch, static=1024, smem=device.smem_max - 1024)
    assert str(device.smem_max + 4) in _errors(arch, static=1028, smem=device.smem_max - 1024)[0]
    assert not _errors(arch, grid=(room, 1, 1), cooperative=True)
    assert f"room for {room}" in _errors(arch, grid=(room + 1, 1, 1), cooperative=True)[0]
    old = arch in ("sm_80", "sm_86", "sm_89")
    assert bool(_errors(arch, cluster=(2, 1, 1))) is old
