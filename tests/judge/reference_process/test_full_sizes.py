"""Sizes near the benchmark's: what stays, what shrinks, and that nothing beyond the budget is chosen."""

from dataclasses import replace
from itertools import pairwise
from math import prod

import pytest

from cutegen_core.judge.problem_source import find_size_slots, parse
from cutegen_core.judge.reference_process.forwards import Cost, Forward, ForwardCall
from cutegen_core.judge.reference_process.full_sizes import BUDGET, find_full_sizes
from cutegen_core.records.errors import ProblemError

HEAD = "class Model: pass\ndef get_inputs(): return []\n"


class Probe:
    """Counts the product of all sizes; a file may tie some of them."""

    def __init__(self, holds=lambda sizes: True, flops=False):
        self.holds, self.flops, self.asked = holds, flops, []

    def forward(self, source, origin):
        self.asked.append(source)
        sizes = {}
        exec(source, sizes)
        numbers = {k: v for k, v in sizes.items() if k.isupper()}
        if not self.holds(numbers):
            raise ProblemError("tied")
        total = prod(numbers.values())
        return Forward(Cost(1, total) if self.flops else Cost(total, 0))

    def run(self, source, origin, values):
        raise AssertionError("only counted")


def found(text, probe=None, benchmark=None, fixed=()):
    names = find_size_slots(parse(HEAD + text, "here"))
    return find_full_sizes(HEAD + text, "here", benchmark or {}, probe or Probe(), set(names) - set(fixed))


def test_what_fits_is_run_as_it_is():
    ((run, *smaller),) = found("A = 64\nB = 1024\n")
    assert (run.sizes, run.changed) == ({"A": 64, "B": 1024}, ())
    assert [(one.sizes["A"], one.sizes["B"]) for one in smaller[:5]] == [
        (64, 512), (64, 256), (64, 128), (64, 64), (64, 32),
    ]  # fmt: skip


def test_nothing_is_smaller_than_what_may_not_change():
    ((run,),) = found("A = 64\nB = 1024\n", fixed=("A", "B"))
    assert run.changed == ()


def test_each_of_two_sizes_is_the_benchmarks_in_one_run():
    ladders = found("A = 4096\nB = 16384\n")
    assert [ladder[0].changed for ladder in ladders] == [("B",), ("A",)]
    assert [ladder[0].sizes for ladder in ladders] == [{"A": 4096, "B": 1024}, {"A": 256, "B": 16384}]


def test_no_run_crops_what_the_benchmark_pads():
    class Pads(Probe):
        def forward(self, source, origin):
            sizes = {}
            exec(source, sizes)
            cropped = frozenset({1}) if sizes["B"] < 2 * sizes["A"] else frozenset()
            pad = ForwardCall("aten.constant_pad_nd.default", frozenset(), (sizes["B"],), cropped=cropped)
            return replace(super().forward(source, origin), calls=(pad,))

    ladders = found("A = 4096\nB = 16384\n", Pads())
    assert ladders
    assert all(run.sizes["B"] >= 2 * run.sizes["A"] for ladder in ladders for run in ladder)


def test_equal_numbers_that_only_fit_together_change_together():
    ladders = found(
        "ROWS = 64\nCOLS = 256\nROWS_TOO = 64\nCOLS_TOO = 256\n",
        Probe(lambda s: s["ROWS"] == s["ROWS_TOO"] and s["COLS"] == s["COLS_TOO"]),
    )
    assert [ladder[0].changed for ladder in ladders] == [("COLS", "COLS_TOO"), ("ROWS", "ROWS_TOO")]


def test_equal_numbers_that_fit_apart_change_apart():
    assert [ladder[0].changed for ladder in found("A = 4096\nB = 4096\n")] == [("A",), ("B",)]


def test_a_size_that_no_workload_varies_stays():
    ladders = found("A = 4096\nB = 16384\n", fixed=("B",))
    assert {run.sizes["B"] for ladder in ladders for run in ladder} == {16384}
    assert found("A = 4096\nB = 16384\n", fixed=("A", "B")) == ()


def test_ladders_fall_by_halves_and_stay_within_the_budget():
    for ladder in found("A = 4096\nB = 16384\nC = 512\n"):
        costs = [run.cost.elements for run in ladder]
        assert all(cost <= BUDGET.elements for cost in costs)
        assert all(a == 2 * b for a, b in pairwise(costs))


def test_the_last_of_a_ladder_is_tiny():
    for ladder in found("A = 4096\nB = 16384\nC = 512\n"):
        assert max(ladder[-1].sizes.values()) == 4


def test_where_nothing_fits_otherwise_sizes_shrink_below_the_usual():
    first, second = found("A = 2_000_000\nB = 64\nC = 64\n")
    assert (first[0].changed, second[0].sizes) == (("A",), {"A": 2_000_000, "B": 1, "C": 2})


def test_a_size_that_never_fits_whole_is_large_with_the_others_small():
    """A width whose weights grow with its square: other sizes alone would be tried with the smallest width."""
    ladders = found("A = 64\nB = 64\nWIDTH = 8192\n", WidthProbe())
    widest = max((run.sizes["WIDTH"], run.sizes["A"], run.sizes["B"]) for ladder in ladders for run in ladder)
    assert widest[0] >= 1024
    assert widest[1:] == (8, 8)


class WidthProbe(Probe):
    def forward(self, source, origin):
        sizes = {}
        exec(source, sizes)
        made = super().forward(source, origin)
        return replace(made, cost=Cost(sizes["WIDTH"] ** 2, sizes["WIDTH"] ** 2 * sizes["A"] * sizes["B"]))


def test_no_forward_is_traced_twice():
    probe = Probe()
    found("A = 4096\nB = 16384\nC = 512\n", probe)
    assert len(probe.asked) == len(set(probe.asked))


def test_sizes_of_a_benchmark_workload_count():
    ladders = found("A = 8\nB = 4\n", benchmark={"A": 1 << 24})
    assert [ladder[0].sizes["A"] for ladder in ladders] == [1 << 20]


@pytest.mark.parametrize(
    "holds",
    [
        lambda s: s["CHANNELS"] == s["HEADS"] * s["WIDTH"],
        lambda s: s["CHANNELS"] % s["HEADS"] == 0 and s["WIDTH"] == 64,
    ],
)
def test_tied_sizes_stay_together(holds):
    ladders = found("BATCH = 4096\nHEADS = 12\nWIDTH = 64\nCHANNELS = 768\n", Probe(holds))
    assert ladders
    assert all(holds(run.sizes) for ladder in ladders for run in ladder)
    assert any(ladder[0].sizes["CHANNELS"] == 768 for ladder in ladders)


def test_a_single_size_shrinks_as_far_as_it_must():
    ((largest, *_),) = found("N = 4096\n", Probe(flops=True, holds=lambda s: True), {"N": 1 << 40})
    assert largest.cost.flops <= BUDGET.flops < 2 * largest.cost.flops


def test_a_file_whose_sizes_cannot_change_has_none():
    assert found("A = 4096\nB = 16384\n", Probe(lambda s: s == {"A": 4096, "B": 16384})) == ()


def test_what_is_found_does_not_depend_on_the_time_it_takes(monkeypatch):
    quick = found("A = 4096\nB = 2048\nC = 1024\n")
    monkeypatch.setattr("time.monotonic", iter(range(0, 10**9, 100)).__next__)
    assert found("A = 4096\nB = 2048\nC = 1024\n") == quick != ()


def test_a_long_forward_is_tried_a_few_times_only():
    probe = Probe()
    call = ForwardCall("aten.add", frozenset(), (1,))
    counted = probe.forward
    probe.forward = lambda source, origin: replace(counted(source, origin), calls=(call,) * 3000)
    assert found("A = 4096\nB = 2048\nC = 1024\nD = 512\n", probe)
    assert len(probe.asked) <= 32
