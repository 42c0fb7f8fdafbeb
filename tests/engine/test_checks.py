"""A kernel file that is checked by the engine gets the verdict that the command itself would give."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutegen_core.commands import checking as command
from cutegen_core.engine import asking
from cutegen_core.engine.asking import CheckError
from cutegen_core.engine.checks import Checks
from cutegen_core.evaluate.evaluator import Evaluator
from cutegen_core.records.check import CheckRequest
from cutegen_core.trajectory.store import Store
from tests.few_runs import few_runs_file
from tests.patience import PATIENCE_S, wait_until
from tests.places import DATA
from tests.shared_tools import ToolsOfTests

KERNEL = (DATA / "relu.cu").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a problem file."""
    folder = tmp_path_factory.mktemp("problems")
    few_runs_file("relu", folder, "small")
    return folder


@pytest.fixture
def checks(tmp_path: Path) -> Iterator[Checks]:
    store = Store(tmp_path / "store.db")
    tools = ToolsOfTests(store)
    served = Checks(tools)
    served.open()
    yield served
    served.close()
    store.close()


def request(folder: Path, kernel: bytes = KERNEL, **changes: object) -> CheckRequest:
    fields = {"problem": "small.py", "executor": "cpu", "seed": 3, "as_json": True} | changes
    return CheckRequest(kernel, folder=str(folder), **fields)  # type: ignore[arg-type]


def ask(asked: CheckRequest) -> tuple[dict[str, object], list[str]]:
    lines: list[str] = []
    answer = asking.ask(asked, lines.append)
    assert answer is not None
    trial = json.loads(answer.text)
    assert answer.passed is (trial["status"] == "PASSED")
    return trial, lines


def test_the_verdict_comes_with_its_stages_on_the_way(checks: Checks, folder: Path) -> None:
    trial, lines = ask(request(folder))
    assert trial["status"] == "PASSED"
    assert [line.split()[:2] for line in lines] == [
        ["patch", "passed"], ["compile", "passed"], ["test", "passed"], ["benchmark", "skipped"],
    ]  # fmt: skip
    wrong, lines = ask(request(folder, KERNEL.replace(b"> 0.0f", b"> 1.0f")))
    assert wrong["status"] == "INCORRECT_NUMERICAL"
    unreadable, _ = ask(request(folder, b"\xff no kernel"))
    assert unreadable["status"] == "REJECTED"


def test_a_problem_that_is_not_there_is_an_error_as_without_the_engine(checks: Checks, folder: Path) -> None:
    with pytest.raises(CheckError, match="'nowhere' is neither a built-in problem"):
        asking.ask(request(folder, problem="nowhere"), print)


def test_an_engine_of_other_code_or_another_environment_is_not_asked(
    checks: Checks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_SANDBOX_MAX", "none")
    assert asking.ask(request(folder), print) is None


def test_without_an_engine_nobody_is_asked(folder: Path) -> None:
    assert asking.ask(request(folder), print) is None
    asking.bind().close()  # what a killed engine leaves
    assert asking.ask(request(folder), print) is None
    asking.unbind()


def test_a_workspace_with_a_long_path_and_the_socket_of_a_killed_engine(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / ("long" * 40)))
    asking.bind().close()
    with asking.bind() as listening:
        asked: list[str] = []

        def answer() -> None:
            with listening.accept()[0] as connection, connection.makefile("rw") as stream:
                asked.extend((stream.readline(), stream.readline()))
                stream.write('{"line": "patch"}\n{"print": "right", "passed": true}\n')

        server = threading.Thread(target=answer)
        server.start()
        lines: list[str] = []
        assert asking.ask(request(folder), lines.append) == ("right", True)
        server.join()
    assert lines == ["patch"]
    assert CheckRequest.from_json(asked[1]) == request(folder)


def test_a_command_that_is_ended_leaves_no_trial_behind(
    checks: Checks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, evaluate = threading.Event(), Evaluator.evaluate

    def watched(self: Evaluator, *args: object, **more: object) -> object:
        begun.set()
        wait_until(more["watch"].stopped, "nobody tells the trial that its client is gone")  # type: ignore[attr-defined]
        return evaluate(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Evaluator, "evaluate", watched)
    with socket.socket(socket.AF_UNIX) as client, asking._address() as address:
        client.connect(address)
        client.sendall(f"{json.dumps(asking.conditions())}\n{request(folder).to_json()}\n".encode())
        assert begun.wait(PATIENCE_S)
    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    wait_until(lambda: not checks.busy, "the check goes on")
    assert ask(request(folder))[0]["status"] == "PASSED"


def test_threads_of_a_trial_ask_side_by_side_whether_the_command_has_ended(
    checks: Checks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, failed = Evaluator.evaluate, []

    def asks(watch: Any) -> None:
        try:
            for _ in range(2000):
                watch.stopped()
        except Exception as error:  # noqa: BLE001 - of a thread, which would only print it
            failed.append(error)

    def with_others(self: Evaluator, candidate: Any, *, watch: Any, **how: Any) -> Any:
        others = [threading.Thread(target=asks, args=(watch,)) for _ in range(8)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        return evaluate(self, candidate, watch=watch, **how)

    monkeypatch.setattr(Evaluator, "evaluate", with_others)
    assert ask(request(folder))[0]["status"] == "PASSED"
    assert failed == []


def test_the_command_takes_the_engines_answer(
    checks: Checks, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cutegen_core import cli

    monkeypatch.setattr(command, "_check_alone", lambda *_: pytest.fail("it was not asked"))
    monkeypatch.chdir(folder)
    kernel = tmp_path / "kernel.cu"
    kernel.write_bytes(KERNEL)
    assert cli.main(["check", str(kernel), "--problem", "small.py", "--executor", "cpu"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("PASSED")
    assert "compile    passed" in said.err
    assert os.getcwd() == str(folder)


def test_the_thread_that_waits_for_clients_ends_with_the_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    before = set(threading.enumerate())
    own = Checks(None)
    own.open()
    (thread,) = set(threading.enumerate()) - before
    own.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
