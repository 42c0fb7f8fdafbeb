"""How far towards the benchmark's sizes a kernel was judged, in words."""

import pytest

from cutegen_core.evaluate.stages.full_sizes import (
    MOST_SWITCHES,
    ChosenRun,
    describe_sizes,
    find_affordable,
    is_tiny,
    limit_switches,
    limit_threads,
)
from cutegen_core.judge.reference_process.forwards import Cost
from cutegen_core.judge.reference_process.full_sizes import SizedRun
from cutegen_core.records.launch import Launch, LaunchPlan
from cutegen_core.records.problem import Workload, WorkloadRole

OWN = {"rows": 4096, "dim": 16384, "shape": (3, 224), "eps": 1e-5}
BENCHMARK = Workload("benchmark", WorkloadRole.BENCHMARK)


def ran(**sizes):
    return Workload("", WorkloadRole.CORRECTNESS, {**OWN, **sizes})


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([ran()], "judged at the sizes of benchmark"),
        ([], "the sizes of benchmark, or any near them, were not run here"),
        (
            [ran(rows=64), ran(dim=256)],
            "judged up to rows = 4096, dim = 16384 in turn; the sizes of benchmark together were not run here",
        ),
        ([ran(rows=64)], "judged up to rows = 64 of 4096; the sizes of benchmark together were not run here"),
        (
            [ran(rows=64, shape=(3, 32)), ran(rows=128, shape=(3, 16))],
            "judged up to rows = 128 of 4096, shape = (3, 32) of (3, 224) in turn; the sizes of benchmark together "
            "were not run here",
        ),
    ],
)
def test_the_verdict_says_how_far_it_got(runs, words):
    assert describe_sizes(BENCHMARK, OWN, runs) == words


def runs(*costs):
    return [ChosenRun(ran(rows=elements), None, Cost(elements, flops)) for elements, flops in costs]


@pytest.mark.parametrize(
    ("costs", "switches", "rows"),
    [
        ([(4096, 0), (1024, 0), (64, 0)], MOST_SWITCHES // 64, 4096),  # 64 times as many just fit
        ([(4096, 0), (1024, 0), (64, 0)], MOST_SWITCHES // 63, 1024),
        (
            [(256, 1 << 20), (128, 1 << 14), (64, 1 << 10)],
            MOST_SWITCHES // 16,
            128,
        ),  # products grow faster than tensors
        ([(256, 0), (128, 0), (64, 0)], MOST_SWITCHES, 64),
        ([(64, 0)], 100 * MOST_SWITCHES, 64),
    ],
)
def test_the_largest_run_is_taken_whose_threads_can_wait_so_often(costs, switches, rows):
    assert find_affordable(runs(*costs), switches).workload.sizes["rows"] == rows


def blocks_of_128_threads(*counts):
    return [ChosenRun(ran(), LaunchPlan((Launch("k", (n, 1, 1), (128, 1, 1), 0, ()),)), Cost(1, 1)) for n in counts]


@pytest.mark.parametrize(
    ("sizes", "tiny"),
    [({}, False), ({"rows": 8}, False), ({"rows": 7}, True), ({"shape": (3, 8)}, False), ({"shape": (3, 4)}, True)],
)
def test_a_run_is_tiny_by_the_numbers_that_were_made_small(sizes, tiny):
    assert is_tiny(SizedRun({**OWN, **sizes}, Cost(1, 1), tuple(sizes)), OWN) == tiny


@pytest.mark.parametrize(
    ("blocks", "chosen"),
    [((64, 32, 16, 8), (64, 32)), ((512, 128, 64, 8), (128,)), ((512, 129, 64, 8), (64, 8)), ((512, 129, 65), (65,))],
    ids=["usual", "a little too many", "far too many", "tiny ones, too"],
)
def test_tiny_runs_are_for_kernels_that_wait_far_too_often_at_others(blocks, chosen):
    usual, last = blocks_of_128_threads(*blocks[:2]), blocks_of_128_threads(*blocks[2:])
    made = limit_switches([*usual, *(one._replace(is_tiny=True) for one in last)], MOST_SWITCHES / (64 * 128))
    assert tuple(one.plan.launches[0].grid[0] for one in made) == chosen


@pytest.mark.parametrize(
    ("blocks", "chosen"), [((65, 64, 4), (64, 4)), ((640, 65), (65,)), ((), ())], ids=["some", "smallest", "none"]
)
def test_no_run_is_tried_whose_threads_would_wait_too_often(blocks, chosen):
    made = limit_switches(blocks_of_128_threads(*blocks), MOST_SWITCHES / (64 * 128))
    assert tuple(one.plan.launches[0].grid[0] for one in made) == chosen


@pytest.mark.parametrize(
    ("blocks", "chosen"), [((64, 8, 4), (8, 4)), ((640, 64), (64,)), ((640, 65), ())], ids=["some", "smallest", "none"]
)
def test_no_run_is_tried_that_cannot_end_in_time(blocks, chosen):
    """A block has 128 threads, and eight blocks are the most."""
    made = limit_threads(blocks_of_128_threads(*blocks), 8 * 128)
    assert tuple(one.plan.launches[0].grid[0] for one in made) == chosen
