"""The static model puts points in the order of its stated terms."""

from dataclasses import replace

import pytest

from cutegen_core.evaluate.tuning.static_model import LaunchedWorkload, cost
from cutegen_core.machine.device import KNOWN
from cutegen_core.records.launch import Launch, LaunchPlan, TensorArgument
from cutegen_core.records.problem import Signature, TensorRole, TensorSpec
from cutegen_core.records.trial import KernelResources

H100 = KNOWN["sm_90a"]
SHAPE = (4096, 4096)
SIGNATURE = Signature((TensorSpec("x", "float32", SHAPE),), (TensorSpec("out", "float32", SHAPE, TensorRole.OUTPUT),))
ARGS = (TensorArgument("x", "float32"), TensorArgument("out", "float32"))
PLAIN = KernelResources("k", "k(float const*, float*)", 32, 0, 0, 0, 0)


def launched(grid, block, smem=0, kernel=PLAIN):
    launch = Launch("k", (grid, 1, 1), (block, 1, 1), smem, ARGS)
    return cost([LaunchedWorkload(SIGNATURE, LaunchPlan((launch,)))], [kernel], H100)


def test_a_last_wave_with_few_blocks_costs_more():
    full, tail = launched(132 * 8 * 4, 256), launched(132 * 8 * 4 + 1, 256)
    assert tail == pytest.approx(full * 5 / (4 + 1 / (132 * 8)), rel=0.01)


def test_less_than_one_block_an_sm_costs_what_lies_idle():
    assert launched(66, 1024) > 1.9 * launched(132, 1024)


def test_too_few_bytes_in_flight_cost_more():
    assert launched(1 << 20, 64, kernel=replace(PLAIN, registers=255)) > launched(1 << 20, 64)


def test_spills_cost_more():
    spilled = replace(PLAIN, spill_store_bytes=64, spill_load_bytes=64)
    assert launched(132 * 64, 256, kernel=spilled) == pytest.approx(1.5 * launched(132 * 64, 256))


def test_shared_memory_counts_as_in_flight_and_against_occupancy():
    assert launched(132 * 8, 128, smem=100 << 10) > launched(132 * 8, 128, smem=20 << 10)


def test_what_does_not_fit_comes_last():
    assert launched(132, 1024, kernel=replace(PLAIN, registers=128)) > 1e5 * launched(132, 1024)


def test_several_workloads_count_as_their_geometric_mean():
    launch = Launch("k", (132 * 8, 1, 1), (256, 1, 1), 0, ARGS)
    small = Signature(
        (TensorSpec("x", "float32", (64, 4096)),), (TensorSpec("out", "float32", (64, 4096), TensorRole.OUTPUT),)
    )
    one, two = (cost([LaunchedWorkload(s, LaunchPlan((launch,)))], [PLAIN], H100) for s in (SIGNATURE, small))
    both = cost([LaunchedWorkload(s, LaunchPlan((launch,))) for s in (SIGNATURE, small)], [PLAIN], H100)
    assert both == pytest.approx((one * two) ** 0.5)
