"""Jobs in the engine, by a double that is a real process: progress, stop, crashes, kill -9, beside sessions."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen_core.engine import job_process, job_slot, loop, old_exports, single
from cutegen_core.engine.job_slot import JobSlots
from cutegen_core.records import as_json
from cutegen_core.records.export import KEPT_DAYS, ExportResult, ExportSettings
from cutegen_core.records.gnn import EpochReport, GraphSettings, RunProgress, RunResult, RunSettings, Task
from cutegen_core.records.job import Job, JobKind, JobState
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.engine.double_engine import DOUBLE
from tests.engine.test_engine import Cold, raw, sound, status
from tests.pages.stories import softmax_story
from tests.patience import PATIENCE_S, SOON_S, wait_until


@pytest.fixture
def store(tmp_path: Path, workspace_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    (tmp_path / "cache").symlink_to(workspace_home / "cache")  # an engine would begin to build the emulator
    monkeypatch.setitem(job_slot.PROGRAMS, JobKind.GNN, job_slot.PROGRAMS[JobKind.GNN]._replace(module=DOUBLE))
    made = Store()
    yield made
    made.close()


def submit(store: Store, source: str = "blocks", ms: int = 1, **changes: object) -> str:
    settings = replace(RunSettings(graph=GraphSettings(source, nodes=ms), epochs=3), **changes)  # type: ignore[arg-type]
    return jobs.create(store, JobKind.GNN, "a run", as_json.dump(settings))


@contextmanager
def slot(store: Store) -> Iterator[JobSlots]:
    """Yield a slot that is asked as the engine asks, in a thread."""
    made, over = JobSlots(store, JobKind.GNN, 1), threading.Event()

    def serve() -> None:
        while not over.wait(0.02):
            with suppress(sqlite3.Error):
                made.dispatch()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()
        made.close()


def ended(store: Store, job: str) -> Job:
    wait_until(lambda: jobs.get(store, job).is_over)
    return jobs.get(store, job)


def epochs(store: Store, job: str) -> list[int]:
    return [as_json.load(EpochReport, text).epoch for text in jobs.reports(store, job)]


def pid_of(job: str) -> int:
    file = jobs.folder(job) / "pid"
    wait_until(file.exists)
    wait_until(lambda: file.read_text() != "")
    return int(file.read_text())


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_a_job_runs_to_its_result(store: Store) -> None:
    job = submit(store)
    with slot(store):
        done = ended(store, job)
    assert (done.state, done.error) == (JobState.DONE, "")
    assert epochs(store, job) == [1, 2, 3]
    result = as_json.load(RunResult, store.text(done.result))
    assert result.sampled_accuracy == 0.9
    assert result.settings.checkpoint.startswith(str(jobs.folder(job)))
    assert 0 < done.created_at <= done.started_at <= done.ended_at


def test_progress_shows_while_it_runs_and_not_more_often_than_twice_a_second(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    real = jobs.set_progress
    monkeypatch.setattr(jobs, "set_progress", lambda *args: (written.append(args[2]), real(*args)))
    job = submit(store, ms=400)
    with slot(store):
        wait_until(lambda: jobs.get(store, job).progress != "")
        assert jobs.get(store, job).state is JobState.RUNNING
        assert as_json.load(RunProgress, jobs.get(store, job).progress).phase == "training"
        ended(store, job)
    assert 1 <= len(written) <= 4, "twelve lines in 1.2 s"


def test_jobs_wait_their_turn(store: Store) -> None:
    first, second = submit(store, ms=300), submit(store)
    with slot(store):
        wait_until(lambda: jobs.get(store, first).state is JobState.RUNNING)
        assert jobs.get(store, second).state is JobState.WAITING
        ended(store, second)
    one, other = jobs.get(store, first), jobs.get(store, second)
    assert one.state is other.state is JobState.DONE
    assert one.ended_at <= other.started_at


def test_a_person_stops_a_job_and_lets_it_go_on(store: Store) -> None:
    job = submit(store, ms=400)
    with slot(store):
        wait_until(lambda: epochs(store, job) == [1])
        jobs.request_stop(store, job)
        stopped = ended(store, job)
        assert (stopped.state, stopped.error) == (JobState.STOPPED, "")
        assert jobs.put_back(store, job)
        assert ended(store, job).state is JobState.DONE
    assert epochs(store, job) == [1, 2, 3], "it went on from its checkpoint"


def test_a_job_that_waits_is_stopped_at_once(store: Store) -> None:
    job = submit(store)
    jobs.request_stop(store, job)
    assert jobs.get(store, job).state is JobState.STOPPED
    assert jobs.next_waiting(store, JobKind.GNN) is None


def test_what_fails_for_being_stopped_is_stopped(store: Store) -> None:
    job = submit(store, "complain")
    with slot(store):
        wait_until(lambda: "listening" in jobs.get(store, job).progress)
        jobs.request_stop(store, job)
        stopped = ended(store, job)
    assert (stopped.state, stopped.error) == (JobState.STOPPED, "")


def test_what_does_not_listen_is_killed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_slot, "STOP_S", 0.3)
    job = submit(store, "deaf")
    with slot(store):
        wait_until(lambda: "not listening" in jobs.get(store, job).progress)
        jobs.request_stop(store, job)
        assert ended(store, job).state is JobState.STOPPED
    assert not lives(pid_of(job))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("crash", "exit code 7. It said last:\nTraceback: the card <b>fell</b> out"),
        ("refuse", "no graph in /nowhere: it has no file graph.npz"),
        ("quiet", "ended without a result"),
    ],
)
def test_a_run_that_fails_says_why(store: Store, source: str, said: str) -> None:
    job = submit(store, source)
    with slot(store):
        failed = ended(store, job)
    assert failed.state is JobState.FAILED
    assert said in failed.error


def test_a_program_that_cannot_be_started_says_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = job_slot.PROGRAMS[JobKind.GNN]._replace(module="tests.engine.no_such_module")
    monkeypatch.setitem(job_slot.PROGRAMS, JobKind.GNN, missing)
    with slot(store):
        assert "No module named tests.engine.no_such_module" in ended(store, submit(store)).error


def test_bad_lines_are_logged(store: Store) -> None:
    job = submit(store, "babble")
    with slot(store):
        assert ended(store, job).state is JobState.DONE
    log = jobs.log_of(job)
    assert log.count("was not understood") == 7
    assert "torn {" in log


def test_a_log_stays_small(store: Store) -> None:
    job = submit(store, "chatter")
    with slot(store):
        assert ended(store, job).state is JobState.DONE
    sizes = [path.stat().st_size for path in jobs.folder(job).glob("log*")]
    assert job_process.LOG_BYTES < sum(sizes) <= 2 * job_process.LOG_BYTES


def test_a_line_without_end_ends_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_process, "LONGEST_LINE", 100_000)
    job = submit(store, "endless")
    with slot(store):
        failed = ended(store, job)
    assert (failed.state, "line without an end" in failed.error) == (JobState.FAILED, True)
    assert not lives(pid_of(job))


def test_a_process_killed_from_outside_is_interrupted(store: Store) -> None:
    job = submit(store, ms=2000)
    with slot(store):
        os.kill(pid_of(job), signal.SIGKILL)
        cut = ended(store, job)
    assert (cut.state, cut.error) == (JobState.INTERRUPTED, job_slot.KILLED)


def test_what_a_run_leaves_behind_dies_with_it(store: Store) -> None:
    job = submit(store, "child")
    with slot(store):
        assert ended(store, job).state is JobState.DONE
    assert not [p for p in Path("/proc").glob("[0-9]*") if of_group(p, pid_of(job))]


def of_group(process: Path, group: int) -> bool:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[2]) == group and fields[0] != "Z"


def test_a_store_that_fails_for_a_while_loses_nothing_of_a_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_slot, "_STORE_PAUSE_S", 0.1)
    job = submit(store, ms=100)
    with slot(store):
        wait_until(lambda: jobs.get(store, job).state is JobState.RUNNING)
        raw(store, "ALTER TABLE job_reports RENAME TO gone")
        time.sleep(0.8)
        raw(store, "ALTER TABLE gone RENAME TO job_reports")
        assert ended(store, job).state is JobState.DONE
    assert epochs(store, job) == [1, 2, 3]


def test_sessions_go_on_beside_a_job_and_the_engine_stays_for_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "IDLE_EXIT_S", 0.3)
    job, session = submit(store, ms=500), sound(store)
    tools = Cold(store)
    served = threading.Thread(target=loop.Engine(store, tools).serve)
    served.start()
    try:
        wait_until(lambda: status(store, session) == "EXHAUSTED")
        assert not jobs.get(store, job).is_over
        served.join(PATIENCE_S)
        assert jobs.get(store, job).state is JobState.DONE, "1.5 s, five times as long as it stays for nothing"
    finally:
        tools.close()


def started_engine() -> subprocess.Popen[bytes]:
    single.touch_client()
    return subprocess.Popen([sys.executable, "-m", "tests.engine.double_engine"])


def test_kill_9_of_the_engine_loses_no_epoch(store: Store) -> None:
    job = submit(store, ms=500, epochs=4)
    with started_engine() as engine:
        wait_until(lambda: len(epochs(store, job)) == 2)
        child = pid_of(job)
        engine.kill()
    wait_until(lambda: not lives(child), seconds=SOON_S)
    with started_engine() as engine:
        wait_until(lambda: jobs.get(store, job).is_over)
        engine.kill()
    assert jobs.get(store, job).state is JobState.DONE
    assert epochs(store, job) == [1, 2, 3, 4]


@pytest.mark.thorough
def test_kill_9_of_the_engine_loses_no_epoch_of_a_real_run(store: Store) -> None:
    graph = GraphSettings(nodes=20_000)
    settings = RunSettings(graph=graph, hidden=32, fanouts=(5, 5), inference_fanouts=(5, 5), batch_size=512, epochs=4)
    job = jobs.create(store, JobKind.GNN, "a run", as_json.dump(settings))
    single.touch_client()
    command = [sys.executable, "-m", "cutegen_core.engine"]
    with subprocess.Popen(command) as engine:
        wait_until(lambda: len(epochs(store, job)) >= 2, seconds=300)
        kept = jobs.reports(store, job)
        engine.kill()
    single.touch_client()
    with subprocess.Popen(command) as engine:
        wait_until(lambda: jobs.get(store, job).is_over, seconds=300)
        engine.kill()
    done = jobs.get(store, job)
    assert (done.state, done.error) == (JobState.DONE, "")
    assert jobs.reports(store, job)[: len(kept)] == kept
    seen = [as_json.load(EpochReport, text) for text in jobs.reports(store, job)]
    assert {one.epoch for one in seen} == {1, 2, 3, 4}
    assert len(seen) <= 5, "at most the epoch that was reported and not yet kept was done again"


@pytest.mark.parametrize("changes", [{}, {"task": Task.INFER}])
def test_what_had_finished_no_epoch_is_not_tried_again(store: Store, changes: dict[str, object]) -> None:
    job = submit(store, **changes)
    assert jobs.start(store, job)
    if changes:
        jobs.add_report(store, job, "{}")
    with slot(store):
        assert ended(store, job).error == job_slot.PROGRAMS[JobKind.GNN].cut_short
    assert jobs.get(store, job).state is JobState.INTERRUPTED


def test_what_was_to_stop_when_its_engine_was_killed_is_stopped_by_the_next(store: Store) -> None:
    job = submit(store)
    assert jobs.start(store, job)
    jobs.add_report(store, job, "{}")
    jobs.request_stop(store, job)
    with slot(store):
        assert ended(store, job).state is JobState.STOPPED
    assert not (jobs.folder(job) / "pid").exists()


def test_an_engine_that_leaves_ends_its_job_for_the_next_one(store: Store) -> None:
    job = submit(store, ms=400)
    with slot(store):
        wait_until(lambda: epochs(store, job) == [1])
        child = pid_of(job)
    assert not lives(child)
    assert jobs.get(store, job).state is JobState.RUNNING
    with slot(store):
        assert ended(store, job).state is JobState.DONE
    assert epochs(store, job) == [1, 2, 3]


def test_settings_of_another_version_stop_no_other_job(store: Store) -> None:
    torn = [jobs.create(store, JobKind.GNN, "torn", "{}") for _ in range(2)]
    raw(store, "UPDATE jobs SET settings = 'torn'")
    assert jobs.start(store, torn[0])
    fine = submit(store)
    with slot(store):
        assert ended(store, fine).state is JobState.DONE
    assert [jobs.get(store, job).state for job in torn] == [JobState.INTERRUPTED, JobState.FAILED]
    assert "stored RunSettings cannot be read" in jobs.get(store, torn[1]).error


def test_a_declared_sleep_learns_nothing_so_it_gets_no_checkpoint(store: Store) -> None:
    job = submit(store, device="sleep:5")
    with slot(store):
        done = ended(store, job)
    assert as_json.load(RunResult, store.text(done.result)).settings.checkpoint == ""


def test_an_imported_job_is_never_run(store: Store) -> None:
    made = jobs.get(store, submit(store))
    job = jobs.adopt(store, replace(made, state=JobState.STOPPED, origin="imported from a.json"), ["{}"])
    assert not jobs.put_back(store, job)
    assert jobs.reports(store, job) == ("{}",)


# ---- exports


def asked(store: Store, session: str, format: str = "jsonl") -> str:
    wanted = ExportSettings(session, 1, format, f"file.{format}")
    return jobs.create(store, JobKind.EXPORT, wanted.name, as_json.dump(wanted))


def carried_out(store: Store) -> None:
    slots = JobSlots(store, JobKind.EXPORT, 2)
    wait_until(lambda: slots.dispatch() or all(job.is_over for job in jobs.every(store, JobKind.EXPORT)))
    slots.close()


def test_files_are_removed_when_they_are_old_or_their_session_is_gone(store: Store) -> None:
    session, days = softmax_story(store).session, 86_400.0
    kept, gone, at_work, training = asked(store, session), asked(store, "gone"), asked(store, "gone"), submit(store)
    for job in (kept, gone, at_work, training):
        (jobs.folder(job) / "file").write_text("x")
    for job in (kept, gone, training):
        jobs.start(store, job)
        jobs.end(store, job, JobState.DONE)
    now = jobs.get(store, kept).ended_at

    def left() -> set[str]:
        return {job for job in (kept, gone, at_work, training) if jobs.place(job).exists()}

    old_exports.OldExports(store).look()
    assert left() == {kept, at_work, training}, "its session is not in the store"
    old_exports.remove(store, now + KEPT_DAYS * days)
    assert left() == {kept, at_work, training}
    old_exports.remove(store, now + KEPT_DAYS * days + 1)
    assert left() == {at_work, training}, "of other kinds nothing is removed"


def test_several_files_are_written_at_once_and_one_that_cannot_be_says_what_and_where(store: Store) -> None:
    session = softmax_story(store).session
    good, bad = asked(store, session, "html"), asked(store, "0123456789", "html")
    carried_out(store)
    made = store.record(ExportResult, jobs.get(store, good).result)
    assert made.nbytes == (jobs.folder(good) / made.name).stat().st_size > 1000
    failed = jobs.get(store, bad)
    assert failed.state is JobState.FAILED
    assert failed.error.startswith("file.html (format html): there is no session 0123456789")
    assert {path.name for path in jobs.folder(bad).rglob("*")} == {"settings.json", "log"}
    assert jobs.every(store) == (), "a training is another kind"


def test_nothing_half_written_is_left_of_an_export_whose_engine_was_killed(store: Store) -> None:
    job = asked(store, softmax_story(store).session)
    assert jobs.start(store, job)
    (jobs.partial(job) / "file.jsonl").write_text("half")
    carried_out(store)
    cut = jobs.get(store, job)
    assert cut.state is JobState.INTERRUPTED
    assert "nothing of it is left. Create it again." in cut.error
    assert not list(jobs.folder(job).rglob("*"))
