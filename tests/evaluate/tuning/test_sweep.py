"""A sweep on scripted kernels: what is pruned, timed, tested, kept and chosen, with a GPU and without."""

import threading

import pytest

from cutegen_core.evaluate.sweep import MOST_TESTED, describe, sweep
from cutegen_core.evaluate.timing.measured import MeasuredPoints
from cutegen_core.kernel.kernel_file import parse
from cutegen_core.machine.device import KNOWN
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author, Candidate
from cutegen_core.records.errors import StoppedError
from cutegen_core.records.performance import Word
from cutegen_core.records.trial import Status
from tests.evaluate.tuning.scripted_points import BASE, KERNEL, Lines, scripted_points, us_of

BEST = {"BLOCK": 512, "ITEMS": 4}


def close(params):
    """Return a landscape like `us_of`, in which points with other items are too near the best for one round to tell."""
    block, items = (128, 256, 512, 1024).index(params["BLOCK"]), (1, 2, 4, 8).index(params["ITEMS"])
    return 40.0 * (1.0 + 0.12 * (block - 2) ** 2 + 0.004 * (items - 2) ** 2)


def swept(**options):
    evaluator, watch = scripted_points(**options), Lines()
    table, source = sweep(evaluator, BASE, 7, watch)
    return evaluator, table, source, watch.said


def test_the_fastest_point_is_found_tested_once_and_chosen():
    evaluator, table, source, said = swept(us=close)
    chosen = table.rows[table.chosen].params
    assert close(chosen) < 1.005 * close(BEST)
    assert parse(source).defaults() == chosen
    assert table.rows[table.chosen].word is Word.FASTER
    assert "measured latency" in table.decided_by
    assert len({tuple(params.items()) for params in evaluator.tested}) == len(evaluator.tested) <= 4
    assert table.turns < table.full_turns / 3
    assert "round 1 of 4: 16 of 16 points" in said
    assert any(line.startswith("round 2 of 4: ") and ", best " in line for line in said)
    assert describe(table).startswith(f"tune: BLOCK=512, ITEMS={chosen['ITEMS']} (16 timed, ")


def test_what_cannot_run_is_left_out_before_compiling():
    evaluator, table, _, _ = swept()
    assert table.pruned == 3, "2048 threads in a block, at three numbers of items; where forbids the fourth"
    assert "2048 threads" in table.pruned_why
    assert len(evaluator.compiled) == 16 == len(table.rows)
    assert all(params["BLOCK"] <= 1024 for params in evaluator.compiled)


def test_what_the_compiler_refuses_is_a_row_and_the_rest_goes_on():
    _, table, _, _ = swept(registers=lambda params: None if params["ITEMS"] == 8 else 32)
    refused = [row for row in table.rows if row.status is Status.LAUNCH_ERROR]
    assert [row.params["ITEMS"] for row in refused] == [8] * 4
    assert refused[0].message == "too many registers"
    assert table.rows[table.chosen].params == BEST


def test_a_fast_wrong_point_is_not_chosen_and_the_next_one_is_tested():
    wrong = Status.INCORRECT_NUMERICAL
    _, table, _, _ = swept(verdict=lambda params: wrong if params == BEST else Status.PASSED)
    chosen = table.rows[table.chosen]
    assert (chosen.status, chosen.word) == (Status.PASSED, Word.FASTER)
    assert us_of(chosen.params) == min(us_of(row.params) for row in table.rows if row.params != BEST)
    assert next(row for row in table.rows if row.params == BEST).status is wrong


def test_where_all_are_wrong_a_few_are_tested_and_the_defaults_stay():
    default = parse(KERNEL).defaults()
    verdict = Status.INCORRECT_NUMERICAL
    evaluator, table, source, _ = swept(verdict=lambda params: Status.PASSED if params == default else verdict)
    assert len(evaluator.tested) == 1 + MOST_TESTED
    assert (table.chosen, source) == (0, KERNEL)


def test_the_defaults_win_ties():
    _, table, source, _ = swept(us=lambda params: 40.0)
    assert (table.chosen, source) == (0, KERNEL)
    _, table, source, _ = swept(us=lambda params: 30.0 if params == parse(KERNEL).defaults() else us_of(params))
    assert (table.chosen, source) == (0, KERNEL)


def test_every_point_says_how_far_it_came():
    _, table, _, _ = swept()
    assert [dict(row.params) for row in table.rows[:2]] == [parse(KERNEL).defaults(), BEST]
    last = table.rows[-1]
    assert (last.status, last.message) == (None, "slower: left out after round 1")
    assert last.raced_us[-1] == pytest.approx(us_of(last.params), rel=0.05)
    assert table.rows[1].cost is not None


def test_points_are_timed_while_others_are_compiled():
    together = threading.Event()

    def registers(params):
        if params["ITEMS"] == 8 and params["BLOCK"] == 1024:
            together.wait()  # for ever, where nothing is timed before the last point is compiled
        return 32

    evaluator = scripted_points(registers=registers)
    race = evaluator.race
    evaluator.race = lambda *given, **named: together.set() or race(*given, **named)
    table, _ = sweep(evaluator, BASE, 7, Lines())
    assert table.rows[table.chosen].params == BEST


def test_a_stop_ends_it_and_what_was_timed_is_not_timed_again(tmp_path):
    measured = MeasuredPoints(tmp_path, KNOWN["sm_90a"], library.load("relu"))

    class Stops(Lines):
        def stopped(self):
            return any(line.startswith("round 2") for line in self.said)

    evaluator = scripted_points(measured=measured, us=close)
    race = evaluator.race

    def stoppable(points, turns, *, seed, watch):
        if watch.stopped():
            raise StoppedError("stopped by the person")
        return race(points, turns, seed=seed, watch=watch)

    evaluator.race = stoppable
    with pytest.raises(StoppedError):
        sweep(evaluator, BASE, 7, Stops())
    assert len(measured.load()) == 16
    again = scripted_points(measured=measured, us=close)
    table, _ = sweep(again, BASE, 7, Lines())
    assert close(table.rows[table.chosen].params) < 1.005 * close(BEST)
    slow = [row for row in table.rows if "in an earlier sweep" in row.message]
    assert slow
    assert all(close(row.params) > 1.05 * close(BEST) for row in slow)
    first = {tuple(params.items()) for heat in again.raced for params in heat}
    assert not first & {tuple(row.params.items()) for row in slow if row.params != parse(KERNEL).defaults()}


def test_kept_times_are_of_one_device_and_problem_and_survive_a_cut_off_line(tmp_path):
    relu, hopper = library.load("relu"), KNOWN["sm_90a"]
    kept = MeasuredPoints(tmp_path, hopper, relu)
    kept.add({"a" * 64: 12.5})
    kept.add({"a" * 64: 13.0, "b" * 64: 9.0})
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + "c" * 64 + " 1")
    assert kept.load() == {"a" * 64: 13.0, "b" * 64: 9.0}
    assert MeasuredPoints(tmp_path, KNOWN["sm_80"], relu).load() == {}
    assert MeasuredPoints(tmp_path, hopper, library.load("gelu")).load() == {}


# ---- without a GPU


def test_without_a_gpu_the_models_choice_is_tested_and_called_not_ranked_by_time():
    evaluator, table, source, _ = swept(can_race=False)
    assert not evaluator.raced
    assert "not ranked by time" in table.decided_by
    assert "not ranked by time" in describe(table)
    chosen = table.rows[table.chosen]
    assert chosen.params["ITEMS"] > 1, "more bytes in flight"
    assert chosen.cost == min(row.cost for row in table.rows)
    assert len(evaluator.tested) == 2, "the defaults and the model's first"
    assert parse(source).defaults() == chosen.params
    assert len(evaluator.compiled) == 12
    assert table.left_out == 4


def test_without_a_gpu_the_next_of_the_model_is_tested_where_the_first_is_wrong():
    _, first, _, _ = swept(can_race=False)
    best = first.rows[first.chosen].params
    verdict = Status.INCORRECT_NUMERICAL
    evaluator, table, _, _ = swept(can_race=False, verdict=lambda p: verdict if p == best else Status.PASSED)
    assert len(evaluator.tested) == 3
    assert table.rows[table.chosen].params != best


def test_where_nothing_can_be_timed_the_model_decides_and_the_reason_is_said():
    _, table, _, _ = swept(not_timed="no room for its buffers")
    assert "not ranked by time" in table.decided_by
    assert "no room for its buffers" in table.decided_by
    assert table.turns == 0


def test_a_kernel_without_parameters_is_tested_and_stays():
    plain = "\n".join(line for line in KERNEL.splitlines() if not line.startswith(("ITEMS", "where")))
    plain = plain.replace("{ default = 256, values = [128, 256, 512, 1024, 2048] }", "256").replace(" * ITEMS", "")
    evaluator = scripted_points(us=lambda params: 40.0)
    table, source = sweep(evaluator, Candidate(plain, Author.PERSON), 7, Lines())
    assert (len(table.rows), table.chosen, source) == (1, 0, plain)
    assert not evaluator.raced


def test_of_very_many_choices_some_are_looked_at_and_the_rest_is_counted():
    params = "\n".join(f"P{i} = {{ default = 0, values = [{', '.join(map(str, range(12)))}] }}" for i in range(3))
    wide = KERNEL.replace("[params]\n", f"[params]\n{params}\n")
    kernel = parse(wide)
    assert kernel.count_choices() == 12**3 * 20
    choices = list(kernel.combinations(KNOWN["sm_90a"], 500))
    assert 400 < len(choices) <= 501
    assert choices[0] == kernel.defaults()
    assert len({choice["ITEMS"] for choice in choices}) == 4
    evaluator = scripted_points(can_race=False)
    table, _ = sweep(evaluator, Candidate(wide, Author.PERSON), 7, Lines())
    assert len(table.rows) == 12
    assert table.left_out > 12**3 * 19
