"""Figures per shape: time, share of the floor, what bounds it, and how it stands to the existing kernel."""

from __future__ import annotations

from dataclasses import replace

from cutegen_core.problems import library
from cutegen_core.propose.astra import playbook_answers
from cutegen_core.propose.astra.figures import describe, figures
from cutegen_core.records.performance import (
    CANDIDATE,
    COMPULSORY,
    EXISTING,
    Bound,
    Performance,
    WorkloadPerformance,
)
from cutegen_core.records.problem import WorkloadRole
from cutegen_core.records.trial import (
    KernelResources,
    Resources,
    Trial,
)
from tests.propose.astra.test_prompting import request_for
from tests.session.clockwork import CONDITIONS, NOISE, speedup, timing
from tests.trials import passed_trial

PROBLEM = library.load("silu_and_mul")
SHAPES = [workload.name for workload in PROBLEM.with_role(WorkloadRole.BENCHMARK)]


def timed(name: str, us: float, floor_us: float, by: str) -> WorkloadPerformance:
    own, existing = timing(CANDIDATE, us), timing(EXISTING, 2 * us)
    bound = Bound(COMPULSORY, 1, 1, "fp32", floor_us if by == "memory" else 0.0, floor_us if by == "compute" else 0.0)
    return WorkloadPerformance(name, (own, existing), (speedup(own, existing),), (), NOISE, CONDITIONS, (bound,))


def tried(*workloads: WorkloadPerformance) -> Trial:
    resources = Resources("sm_90a", (KernelResources("k", "k()", 32, 0, 0, 0, 0),), ())
    return passed_trial("a" * 64, resources, Performance(workloads))


def test_each_shape_says_its_time_its_floor_and_what_bounds_it() -> None:
    performance = [timed(SHAPES[0], 2.0, 0.5, "memory"), timed(SHAPES[1], 4.0, 3.0, "compute")]
    request = replace(request_for(PROBLEM), base_trial=tried(*performance))
    first, second, third = figures(request)[:3]
    assert (first.us, first.share, first.bound_by, first.over_existing) == (2.0, 0.25, "memory", 2.0)
    assert (second.share, second.bound_by) == (0.75, "compute")
    assert (third.us, third.share) == (None, None)
    lines = describe(figures(request)).splitlines()
    assert "2.00 us, 25% of the floor's speed (0.50 us, bound by memory), 2.00x the existing kernel's speed" in lines[0]
    assert lines[2].endswith("not measured")


def test_the_playbook_names_the_shape_that_is_farthest_from_its_floor() -> None:
    performance = [timed(name, 2.0, 0.5 if n == 3 else 1.5, "memory") for n, name in enumerate(SHAPES)]
    said = playbook_answers.profile(replace(request_for(PROBLEM), base_trial=tried(*performance)))
    assert f"Farthest from its floor: {SHAPES[3]} (25%), bound by memory there." in said


def test_without_a_gpu_the_playbook_says_that_nothing_was_timed() -> None:
    said = playbook_answers.profile(request_for(PROBLEM))
    assert "Nothing was timed here" in said
    assert "tensors of " in said
    assert " us" not in said
