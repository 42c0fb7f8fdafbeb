"""What a session may spend and try, from the command line: raised for one that ended, and given to a bench."""

import json
import subprocess
import sys

import pytest

from cutegen_core import cli
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.decision import Effort
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from tests.few_runs import few_runs_file
from tests.model_server import ModelServer, reply
from tests.patience import PATIENCE_S


def said(*arguments):
    """Return the exit code and the document of a command in a process of its own, as an engine's owner must be."""
    command = [sys.executable, "-m", "cutegen_core.cli", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def served(workspace_home):
    """A model, set up without prices, that never writes a kernel."""
    with ModelServer(reply("I have no kernel.")) as server:
        model_settings.write(Models(tuple(ModelSettings(name, server.base_url, name) for name in ("a", "b"))))
        yield server


@pytest.mark.thorough
def test_a_session_whose_steps_are_used_up_goes_on_with_more(served, tmp_path):
    problem = few_runs_file("relu", tmp_path)
    code, ended = said("run", "--problem", problem, "--proposer", "llm", "--auto", "--max-steps", 1)
    assert (code, ended["state"], len(served.asked)) == (1, "EXHAUSTED", 2)
    session = ended["session"]
    code, refused = said("resume", session)
    assert code == 2
    assert "--budget-money" in refused["error"]
    code, refused = said("resume", session, "--budget-money", 1)
    assert code == 2
    assert "needs the prices of a" in refused["error"]
    assert len(served.asked) == 2

    code, ended = said("resume", session[:8], "--max-steps", 2, "--budget-minutes", 30, "--budget-tokens", 10**6)
    assert (code, ended["state"], len(served.asked)) == (1, "EXHAUSTED", 4)
    state = state_of(Store(), session)
    assert (state.max_steps, state.max_minutes, state.max_tokens) == (2, 30.0, 10**6)


@pytest.mark.thorough
def test_a_bench_takes_the_efforts_of_a_run(served, tmp_path):
    few_runs_file("relu", tmp_path, "relu")
    code, _ = said(
        "bench", "--set", tmp_path, "--proposer", "llm", "--models", "a,b", "--ideas", "few", "--conversation", "off",
        "--max-steps", 1, "--budget-minutes", 9,
    )  # fmt: skip
    assert code == 1
    store = Store()
    state = state_of(store, store.sessions()[0])
    wanted = Effort(ideas="few", width=2, models=("a", "b"), max_minutes=9.0, conversation=False)
    assert state.settings.effort == wanted
    assert {call.model for call in state.steps[0].calls} == {"a", "b"}


def test_a_bench_that_cannot_have_several_candidates_is_refused(workspace_home, capfd, tmp_path):
    few_runs_file("relu", tmp_path, "relu")
    assert cli.main(["bench", "--set", str(tmp_path), "--width", "2", "--json"]) == 2
    assert "several candidates a step need a language model" in capfd.readouterr().out
