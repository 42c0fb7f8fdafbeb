"""The tables of the serving benchmarks: every shape has its floor, and Astra's figure where there is one."""

import argparse

from benchmarks.serving import kernels, trace
from cutegen_core.problems.library import catalogue
from cutegen_core.records.problem import WorkloadRole


def test_astra_s_figures_are_of_shapes_that_the_problems_have():
    known = {p.name: {w.name for w in p.with_role(WorkloadRole.BENCHMARK)} for p in catalogue() if p.existing}
    for name, shapes in kernels.ASTRA.items():
        assert set(shapes) == known[name]
        assert all(best < base for base, best in shapes.values())


def test_a_trace_becomes_a_line_for_each_shape(capsys):
    rows = [
        {"problem": "silu_and_mul", "floors": {"16 x 4096": 0.094, "4096 x 8192": 47.93}},
        {"problem": "silu_and_mul", "kernel": "existing", "us": {"16 x 4096": 4.0, "4096 x 8192": 90.0}},
        {"problem": "silu_and_mul", "kernel": "tuned", "us": {"16 x 4096": 1.6, "4096 x 8192": 55.0}},
        {"problem": "silu_and_mul", "kernel": "tuned, ITEMS = 4", "us": {"16 x 4096": 1.7, "4096 x 8192": 53.0}},
        {"problem": "silu_and_mul", "kernel": "naive", "failure": "wrong at 16 x 4096"},
    ]
    found = trace.table(rows)["silu_and_mul"]
    assert found["4096 x 8192"]["astra"] == {"baseline": 494.9, "optimised": 74.2}
    assert found["16 x 4096"]["kernels"] == {"existing": 4.0, "tuned": 1.6, "tuned, ITEMS = 4": 1.7}
    trace.show({"silu_and_mul": found})
    small, large = capsys.readouterr().out.splitlines()
    assert small.endswith("| tuned 1.6; tuned, ITEMS = 4 1.7")
    assert "existing 90.0 tuned 55.0 Astra 74.2 floor 47.93 | tuned, ITEMS = 4 53.0" in large


def test_a_problem_that_fails_in_its_process_leaves_no_rows(capsys):
    asked = argparse.Namespace(seconds=1.0, product=False, eager=False)
    assert trace.run("no_such_problem", asked) == []
    assert "no_such_problem" in capsys.readouterr().out
