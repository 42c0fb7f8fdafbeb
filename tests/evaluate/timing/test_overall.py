"""Several benchmark workloads spoken of at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.evaluate.evidence.speed import speed
from cutegen_core.evaluate.timing.overall import overall, regressed, shape_times
from cutegen_core.records.evidence import Tone, Topic
from cutegen_core.records.performance import BEST, EAGER, GRAPH, Performance, Word
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import measured, timed

SMALL, LARGE = measured(50.0, 100.0, workload="small"), measured(200.0, 160.0, workload="large")
BOTH = Performance((SMALL, LARGE))


def test_one_workload_stands_for_itself() -> None:
    assert overall(Performance((SMALL,))) is SMALL
    assert shape_times(Performance((SMALL,))) == ()
    assert overall(Performance()) is None
    assert overall(None) is None


def test_means_are_geometric_and_their_ratio_is_the_mean_ratio() -> None:
    mean = overall(BOTH)
    assert mean is not None
    assert mean.candidate.median_us == pytest.approx((SMALL.candidate.median_us * LARGE.candidate.median_us) ** 0.5)
    best = mean.speedup(BEST)
    assert best is not None
    medians = {t.contender: t.median_us for t in mean.timings}
    assert best.ratio == pytest.approx(medians[BEST] / mean.candidate.median_us, rel=1e-3)
    assert best.low < best.ratio < best.high
    assert best.word is Word.FASTER
    bound, parts = mean.bound(GRAPH), [w.bound(GRAPH) for w in (SMALL, LARGE)]
    assert bound is not None
    assert bound.us == pytest.approx((parts[0].us * parts[1].us) ** 0.5)


def test_what_one_workload_lacks_has_no_mean() -> None:
    lacking = replace(LARGE, timings=LARGE.timings[:1], speedups=(), bounds=())
    mean = overall(Performance((SMALL, lacking)))
    assert mean is not None
    assert mean.speedup(EAGER) is None
    assert (len(mean.timings), mean.bounds) == (1, ())


def test_the_workload_that_became_slower_is_named_though_the_mean_is_faster() -> None:
    (slower,) = regressed(shape_times(BOTH))
    assert (slower.workload, slower.against_best) == ("large", Word.SLOWER)
    assert slower.ratio == pytest.approx(0.8, rel=0.01)


def test_the_evidence_compares_the_workloads_and_their_mean(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    table = next(speed(timed(store, store.put("kernel"), BOTH)))
    assert (table.topic, table.title) == (Topic.SHAPES, "Speed on 2 workloads")
    assert [row.cells[0] for row in table.rows] == ["small", "large", "geometric mean of 2 workloads"]
    assert [row.tone for row in table.rows] == [Tone.BETTER, Tone.WORSE, Tone.BETTER]
    assert "1.25x slower" in table.rows[1].text
