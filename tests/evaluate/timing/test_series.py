"""Interleaved rounds of contenders with synthetic clocks: who is dropped, who is suspect, when to rest."""

import collections
import itertools
import random

import pytest

from cutegen_core.evaluate.timing import schedule, series, statistics
from cutegen_core.evaluate.timing.contenders import Dropped, RoundSamples
from cutegen_core.evaluate.timing.series import Series
from cutegen_core.execute.cuda.nvml import GpuState, Period
from cutegen_core.records.errors import MachineError
from cutegen_core.records.performance import BEST, Word
from cutegen_core.records.trial import Status

COOL, HOT = 0x0, 0x40
SETS = tuple(range(1, 10))


class Clocked:
    """A contender whose samples take `us`, a little noise beside; it may fail, remember, or be slow at times."""

    def __init__(self, name, us, *, fails_at=None, unseen_us=None, noise=0.002):
        self.name, self.us, self.fails_at, self.unseen_us, self.noise = name, us, fails_at, unseen_us, noise
        self.rounds, self.runs, self.seen, self.random = 0, 0, set(), random.Random(name)
        self.not_before = []

    def measure_round(self, order, warm_runs, seconds, not_before=0.0):
        self.not_before.append(not_before)
        self.rounds += 1
        self.runs += warm_runs + len(order)
        if self.rounds == self.fails_at:
            raise Dropped(Status.RUNTIME_ERROR, f"{self.name} failed")
        taken = [self.us if self.unseen_us is None or i in self.seen else self.unseen_us for i in order]
        self.seen |= set(order)
        return RoundSamples(tuple(us * self.random.gauss(1, self.noise) for us in taken), "graph replay")


class Thermometer:
    """Says the reasons it was given, one period after another, and then the last for ever."""

    def __init__(self, *reasons):
        self.reasons = list(reasons)

    def since(self, begun):
        now = self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]
        return Period((GpuState(begun, 1980, 3201, 40, 300.0, now),))


def measured(*contenders, looks=None, checked=None):
    checked = [] if checked is None else checked
    found = Series("a GPU", SETS, looks or Thermometer(COOL), lambda: None, checked.append)
    found.run(contenders)
    return found


def test_contenders_are_timed_and_compared():
    found = measured(Clocked("candidate", 100.0), Clocked("eager", 150.0), Clocked("torch.compile", 100.0))
    assert [t.contender for t in found.timings()] == ["candidate", "eager", "torch.compile"]
    words = {s.baseline: s.word for s in found.speedups(0.005)}
    assert words == {"eager": Word.FASTER, "torch.compile": Word.SAME}
    assert not found.untimed


def test_every_round_of_the_candidate_is_checked_and_unseen_sets_come_last():
    checked = []
    candidate = Clocked("candidate", 100.0)
    measured(candidate, Clocked("eager", 150.0), checked=checked)
    assert len(checked) == candidate.rounds - 2  # the first two only say how long it takes
    held = set(SETS) - set(checked[0])
    assert held
    assert set(checked[-1]) == set(SETS)
    assert all(not held & set(order) for order in checked[:-1])


def test_rounds_of_the_existing_kernel_are_checked_too_and_a_wrong_one_is_dropped():
    existing, wrong = Clocked("existing", 120.0), [5]

    def check(order):
        if existing.rounds in wrong:
            wrong.clear()
            raise Dropped(Status.INCORRECT_NUMERICAL, "3 of 8 are wrong")

    found = Series("a GPU", SETS, Thermometer(COOL), lambda: None, check)
    found.run([Clocked("candidate", 100.0), existing, Clocked("eager", 150.0)])
    assert [t.contender for t in found.timings()] == ["candidate", "eager"]
    assert [(u.contender, u.reason) for u in found.untimed] == [("existing", "3 of 8 are wrong")]


def test_a_kernel_that_finds_earlier_results_again_is_suspect():
    with pytest.raises(Dropped, match="never seen") as dropped:
        measured(Clocked("candidate", 50.0, unseen_us=100.0))
    assert dropped.value.status is Status.SUSPECT


def test_it_is_suspect_however_often_it_looks_at_values_before_it_finds_their_results():
    class Patient(Clocked):
        def __init__(self, *given):
            super().__init__(*given)
            self.uses = collections.Counter()

        def measure_round(self, order, warm_runs, seconds, not_before=0.0):
            taken = super().measure_round(order, warm_runs, seconds, not_before)
            us = tuple(us * (1 if self.uses[index] >= 3 else 2) for us, index in zip(taken.us, order, strict=True))
            self.uses.update(order)
            return RoundSamples(us, taken.method)

    with pytest.raises(Dropped, match="never seen"):
        measured(Patient("candidate", 100.0))


def test_values_that_take_more_work_are_not_suspect():
    """A graph with one large node is slow each time, seen or not."""

    class Uneven(Clocked):
        def measure_round(self, order, warm_runs, seconds, not_before=0.0):
            taken = super().measure_round(order, warm_runs, seconds, not_before)
            us = tuple(us * (1.3 if index == SETS[-1] else 1) for us, index in zip(taken.us, order, strict=True))
            return RoundSamples(us, taken.method)

    (timing,) = measured(Uneven("candidate", 100.0)).timings()
    assert timing.median_us == pytest.approx(100, rel=0.01)


def test_the_candidates_failure_ends_it_anothers_is_noted():
    with pytest.raises(Dropped, match="candidate failed"):
        measured(Clocked("candidate", 100.0, fails_at=5), Clocked("eager", 150.0))
    for fails_at in (1, 5):
        found = measured(Clocked("candidate", 100.0), Clocked("eager", 150.0, fails_at=fails_at))
        assert [(u.contender, u.reason) for u in found.untimed] == [("eager", "eager failed")]
        assert [t.contender for t in found.timings()] == ["candidate"]


def test_samples_taken_in_heat_are_dropped_and_counted():
    (timing, _) = measured(
        Clocked("candidate", 100.0), Clocked("eager", 150.0), looks=Thermometer(HOT, COOL, COOL, HOT, COOL)
    ).timings()
    assert timing.dropped == 16
    assert timing.n == 96 - 16


def test_a_baseline_that_was_always_hot_has_no_time():
    always = Thermometer(*([COOL, HOT, HOT, COOL] * 6))
    found = measured(Clocked("candidate", 100.0), Clocked("eager", 150.0), looks=always)
    assert [u.contender for u in found.untimed] == ["eager"]


def test_a_best_that_shares_no_cool_round_with_the_candidate_is_untimed():
    in_turns_hot = Thermometer(*([COOL, HOT] * 12))  # candidate, best; best, candidate; ...
    found = measured(Clocked("candidate", 100.0), Clocked(BEST, 80.0), looks=in_turns_hot)
    (untimed,) = found.untimed
    assert (untimed.contender, found.speedups(0.005)) == (BEST, ())
    assert untimed.reason == "heat left no round with samples of both it and the candidate"
    assert [t.contender for t in found.timings()] == ["candidate"]


def test_a_candidate_that_was_always_hot_is_the_machines_fault():
    with pytest.raises(MachineError, match=r"a GPU was slowed down by heat all the time \(.+\); let it cool down"):
        measured(Clocked("candidate", 100.0), looks=Thermometer(HOT))


@pytest.mark.parametrize("fails_at", [1, 5, None])
def test_the_noise_is_that_of_the_kernels_whoever_is_missing(fails_at):
    kernels = Clocked("candidate", 100.0), Clocked("best", 100.0, fails_at=fails_at, noise=0.02)
    timings = measured(*kernels, Clocked("eager", 150.0, noise=0.2)).timings()
    noise = {t.contender: t.noise for t in timings}
    assert statistics.kernels_noise(timings) == (noise["candidate"] if fails_at else noise["best"])
    assert noise["eager"] > 2 * statistics.kernels_noise(timings)


def test_it_rests_after_each_round_as_long_as_that_one_has_worked(monkeypatch):
    """What is checked between two rounds takes the device's rest, and no longer."""
    monkeypatch.setattr(series.time, "monotonic", lambda: 7.0)
    candidate, eager = Clocked("candidate", 100.0), Clocked("eager", 1e4)
    measured(candidate, eager)
    assert candidate.not_before[:3] == [0.0, 0.0, 7.0]  # the first two only say how long it takes
    rest_s = eager.not_before[2] - 7.0
    assert rest_s == pytest.approx(series.REST_SHARE * (8 + 20) * 100e-6, rel=0.05)
    assert max(candidate.not_before) == 7.0 + series.LONGEST_REST_S


def test_the_second_measurement_takes_fewer_rounds_with_as_many_samples_each():
    first, again = Clocked("candidate", 100.0, noise=0.02), Clocked("candidate", 100.0)
    once = measured(first).timings()[0]
    found = Series("a GPU", SETS, Thermometer(COOL), lambda: None, lambda _: None)
    found.run([again], schedule.HALF_ROUNDS)
    assert found.timings()[0].n * schedule.MOST_ROUNDS == once.n * schedule.HALF_ROUNDS
    assert again.rounds == first.rounds - (schedule.MOST_ROUNDS - schedule.HALF_ROUNDS)


@pytest.mark.parametrize("us", [100.0, 2000.0])
@pytest.mark.parametrize(("noise", "rounds"), [(0.002, schedule.HALF_ROUNDS), (0.05, schedule.MOST_ROUNDS)])
def test_it_ends_after_half_of_the_rounds_only_if_these_say_enough(us, noise, rounds):
    for eager_us in (us, 1.5 * us):  # whichever word it comes to
        found = measured(Clocked("candidate", us), Clocked("eager", eager_us, noise=noise))
        assert [t.n for t in found.timings()] == [rounds * schedule.MOST // schedule.MOST_ROUNDS] * 2


@pytest.mark.parametrize(("ratio", "word"), [(1.0, Word.SAME), (1.03, Word.FASTER), (1 / 1.03, Word.SLOWER)])
def test_ending_early_favours_no_word(ratio, word):
    words = []
    for number, noise in itertools.product(range(5), (0.001, 0.01)):
        best = Clocked(BEST, 100.0 * ratio, noise=noise)
        best.random.seed(number)
        found = measured(Clocked("candidate", 100.0, noise=noise), best)
        words += [s.word for s in found.speedups(statistics.kernels_noise(found.timings()))]
    assert words == [word] * 10


def test_few_samples_never_end_it_early():
    (timing,) = measured(Clocked("candidate", 2e4, noise=0.0)).timings()
    assert timing.n == 24


def test_a_slow_baseline_sits_rounds_out():
    slow = Clocked("eager", 4e5)
    found = measured(Clocked("candidate", 100.0), slow)
    assert slow.rounds == 1 + 4, "one to know how long it takes"
    assert found.timings()[1].n == 4
    assert found.speedups(0.005)[0].word is Word.FASTER


def test_a_race_measures_equals_in_turns_and_goes_on_without_one_that_fails():
    points = [Clocked("0", 100.0), Clocked("1", 90.0, fails_at=4), Clocked("2", 110.0)]
    checked = []
    found = Series("a GPU", SETS, Thermometer(COOL), lambda: None, checked.append)
    found.race(points, 4)
    samples = found.samples()
    assert list(samples) == ["0", "2"]
    assert len(samples["0"]) == 4 * 8, "a twelfth of an ordinary measurement each turn"
    assert [(u.contender, u.reason) for u in found.untimed] == [("1", "1 failed")]
    assert not checked, "a race verifies nothing"


def test_a_race_leaves_out_who_was_throttled_all_the_time():
    found = Series("a GPU", SETS, Thermometer(HOT), lambda: None, lambda sets: None)
    found.race([Clocked("0", 100.0), Clocked("1", 90.0)], 2)
    assert found.samples() == {}
    assert {u.contender for u in found.untimed} == {"0", "1"}


@pytest.mark.parametrize(("us", "most", "fewest"), [(60e3, 10, 4), (2e6, 4, 2)])
def test_a_slow_kernel_has_its_times_after_few_runs(us, most, fewest):
    slow = Clocked("candidate", us)
    found = measured(slow, Clocked("eager", 150.0))
    assert slow.runs <= most
    assert len(found.samples()["candidate"]) >= fewest
    assert found.speedups(0.01)[0].word is Word.SLOWER
    with pytest.raises(Dropped, match="has never seen"):
        measured(Clocked("candidate", us, unseen_us=1.5 * us))


def test_a_kernel_of_seconds_is_measured_again_by_one_run_of_a_seen_set():
    again, checked = Clocked("candidate", 2e6), []
    found = Series("a GPU", SETS, Thermometer(COOL), lambda: None, checked.append)
    found.run_once(again, 2e6)
    assert again.runs == 1
    assert found.timings()[0].median_us == pytest.approx(2e6, rel=0.02)
    assert checked == [SETS[:1]]
    with pytest.raises(Dropped, match="candidate failed"):
        found.run_once(Clocked("candidate", 2e6, fails_at=1), 2e6)
