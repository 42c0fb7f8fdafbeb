"""The comparison of `benchmarks.timing.tuner` on scripted times: what it says follows from them."""

from benchmarks.timing.tuner import compare, narrow
from cutegen_core.kernel.kernel_file import parse
from tests.evaluate.tuning.scripted_points import KERNEL, scripted_points, us_of


def test_the_sweep_is_held_against_timing_every_point_in_full():
    found = compare(scripted_points(), KERNEL)
    assert len(found["points"]) == 16
    assert found["chosen"] == {"BLOCK": 512, "ITEMS": 4}
    assert abs(found["regret"]) < 0.01
    assert found["share"] < 1 / 3
    assert found["rounds"][0] == 16
    worst = max(us_of({"BLOCK": block, "ITEMS": items}) for block in (128, 1024) for items in (1, 8))
    assert 0.0 <= found["model_best_of_4"] <= found["model_first"] <= worst / 40.0
    assert all(len(row["samples"]) == 48 for row in found["points"])


def test_a_point_that_does_not_compile_has_no_time():
    found = compare(scripted_points(registers=lambda params: None if params["ITEMS"] == 8 else 32), KERNEL)
    assert [row["us"] is None for row in found["points"]].count(True) == 4


def test_a_kernel_of_many_points_is_narrowed_from_its_last_parameter_on():
    assert narrow(KERNEL, 20) == KERNEL
    narrowed = parse(narrow(KERNEL, 19))
    assert (narrowed.count_choices(), narrowed.defaults()) == (5, parse(KERNEL).defaults())
