"""The command line as scripts use it: one JSON document on stdout, exit codes, the engine in its own process."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutegen_core import cli, engine, views
from cutegen_core.kernel import kernel_file
from cutegen_core.propose.llm import model_settings
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Store
from tests.few_runs import few_runs_file
from tests.patience import PATIENCE_S, wait_until
from tests.places import DATA, ROOT
from tests.serving import free_port

RELU = DATA / "relu.cu"


def answer(*arguments, code=0, timeout=240):
    """Return what a script reads from the command in a process of its own."""
    command = [sys.executable, "-m", "cutegen_core.cli", *map(str, arguments), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def said(capfd):
    """What a command prints and its exit code, in this process: one of its own takes a second of a core to start."""

    def run(*arguments):
        code = cli.main([*map(str, arguments), "--json"])
        out, err = capfd.readouterr()
        return code, json.loads(out), err

    return run


@pytest.fixture
def here(said):
    def run(*arguments, code=0):
        ended, document, err = said(*arguments)
        assert ended == code, err
        return document

    return run


def test_doctor_names_the_toolchain_and_each_fix():
    findings = answer("doctor")
    assert {"name", "state", "detail", "fix"} <= findings[0].keys()
    assert all(finding["fix"] for finding in findings if finding["state"] == "missing")


def test_problems_lists_the_catalogue_with_workloads(here):
    listing = here("problems")
    assert listing["loaded"] == listing["total"] >= 16
    names = {entry["name"] for entry in listing["problems"]}
    assert {"relu", "softmax", "layernorm", "matmul_transposed_a", "matvec", "matmul_bias_relu"} <= names
    assert listing["problems"][0]["workloads"]


def test_a_folder_reports_what_could_not_be_loaded(here, tmp_path):
    (tmp_path / "good.py").write_text((ROOT / "cutegen_core/problems/catalogue/pointwise/relu.py").read_text())
    (tmp_path / "broken.py").write_text("class Model(:\n")
    listing = here("problems", "--path", tmp_path)
    assert (listing["loaded"], listing["total"]) == (1, 2)
    (broken,) = [entry for entry in listing["problems"] if entry["name"] == "broken"]
    assert "broken.py:1: not valid Python" in broken["error"]


def test_problems_says_which_family_recognises_each_or_why_none_does(here, capfd, tmp_path):
    relu = (ROOT / "cutegen_core/problems/catalogue/pointwise/relu.py").read_text()
    for name, call in (("known", "torch.softmax(x, 1)"), ("unknown", "torch.mode(x, 1)[0]")):
        (tmp_path / f"{name}.py").write_text(relu.replace("torch.relu(x)", call))
    known, unknown = (found["playbook"] for found in here("problems", "--playbook", "--path", tmp_path)["problems"])
    assert known["families"] == ["rows"]
    assert known["kernels"][0] == "naive"
    assert unknown == {"families": [], "kernels": [], "missing": "no rule for aten.mode (line 24)"}
    assert cli.main(["problems", "--playbook", "--path", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "rows: naive -> shuffle" in shown
    assert "not in the playbook: no rule for aten.mode" in shown
    assert "the playbook knows 1 of 2" in shown


def test_check_passes_a_right_kernel_and_says_what_it_measured(here, tmp_path):
    trial = here("check", RELU, "--problem", few_runs_file("relu", tmp_path), "--seed", 5)
    assert trial["status"] == "PASSED"
    assert [stage["stage"] for stage in trial["stages"]] == ["PATCH", "COMPILE", "TEST", "BENCHMARK", "PROFILE"]
    assert trial["performance"] is None
    assert trial["resources"]["kernels"][0]["registers"] > 0
    assert {verdict["seed"] for verdict in trial["correctness"]["verdicts"]} == {5}


def test_check_fails_a_wrong_kernel_with_exit_code_1(here, tmp_path):
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(RELU.read_text().replace(": 0.0f", ": 0.0f / 0.0f"))
    trial = here("check", wrong, "--problem", few_runs_file("relu", tmp_path), code=1)
    assert trial["status"] == "INCORRECT_NUMERICAL"
    assert "nan" in trial["message"].lower()


def test_check_of_a_file_that_is_no_text_is_a_verdict(here, tmp_path):
    path = tmp_path / "binary.cu"
    path.write_bytes(b"/* cutegen \xff\xfe */")
    trial = here("check", path, "--problem", "relu", code=1)
    assert trial["status"] == "REJECTED"
    assert "not UTF-8" in trial["message"]
    assert "at most 1.0 MB" in here("check", "/dev/zero", "--problem", "relu", code=1)["message"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nowhere.cu", "--problem", "relu"), "cannot read nowhere.cu"),
        (("check", RELU, "--problem", "nothing"), "neither a built-in problem"),
        (("check", RELU, "--problem", "relu", "--executor", "gpu"), "no GPU that kernels could run on"),
        (("show", "zzzz"), "no session 'zzzz'"),
        (("export", "zzzz", "--format", "cu", "-o", "x.cu"), "no session 'zzzz'"),
        (("import", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_to_do(said, arguments, words):
    code, document, err = said(*arguments)
    assert code == 2
    assert words in document["error"]
    assert words in err


NUMBERS = [
    "9" * 5000,
    "9" * 30,
    "-1",
    "inf",
    "nan",
    "1.5",
    "1e3",
    "0x10",
    "",
    "half",
    "\u0663\u0664",
    "99999999999999999999",
]
STRANGE = ["x" * 5000, "~nobody-of-that-name/x.py", "/dev/null/x", "\udcff\x1b[31m", "*", "%s"]
NUMBERED = (("app", "--port"), ("check", RELU, "--problem", "relu", "--seed"),
            ("run", "--problem", "relu", "--max-steps"), ("run", "--problem", "relu", "--budget-tokens"),
            ("run", "--problem", "relu", "--enough"), ("run", "--problem", "relu", "--width"))  # fmt: skip
NAMED = (("show",), ("replay",), ("import",), ("export", "-o", "x.cu"), ("run", "--problem"), ("problems", "--path"),
         ("problems", "--lint"), ("check", "--problem", "relu"), ("check", RELU, "--problem"),
         ("run", "--problem", "relu", "--arch"), ("check", RELU, "--problem", "relu", "--executor"),
         ("run", "--problem", "relu", "--strategy"), ("run", "--problem", "relu", "--proposer"),
         ("run", "--problem", "relu", "--proposer", "llm", "--model", "m", "--base-url"))  # fmt: skip


@pytest.mark.parametrize("arguments", NUMBERED, ids=lambda arguments: f"{arguments[0]} {arguments[-1]}")
def test_a_hopeless_number_ends_with_2_in_a_short_line(arguments, capfd):
    for number in NUMBERS:
        with pytest.raises(SystemExit) as ended:
            cli.main([*map(str, arguments), number])
        assert ended.value.code == 2, number
        said = capfd.readouterr().err.splitlines()[-1]
        assert "is no whole number from" in said or "expected one argument" in said
        assert len(said) < 200


@pytest.mark.parametrize("option", ["--budget-money", "--budget-minutes", "--worth-tokens", "--worth-money"])
def test_a_hopeless_amount_ends_with_2_in_a_short_line(option, capfd):
    for number in ("9" * 5000, "-1", "0", "inf", "nan", "0x10", "", "half", "1e400"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["run", "--problem", "relu", option, number])
        assert ended.value.code == 2, number
        said = capfd.readouterr().err.splitlines()[-1]
        assert "is no number above 0" in said or "expected one argument" in said
        assert len(said) < 200


@pytest.mark.parametrize("arguments", NAMED, ids=lambda arguments: f"{arguments[0]} {arguments[-1]}")
def test_a_hopeless_name_ends_with_2_and_no_traceback(arguments, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in STRANGE:
        try:
            code = cli.main([*map(str, arguments), "--json", name])
        except SystemExit as ended:
            code = ended.code
        said = capfd.readouterr().err
        assert code == 2, (name, said[-500:])
        assert "Traceback" not in said
        assert "\x1b" not in said


def test_wrong_usage_is_the_exit_code_of_the_process():
    assert "no session" in answer("show", "zzzz", code=2)["error"]


def test_run_ends_accepted_and_the_session_can_be_shown_exported_and_replayed(here, tmp_path):
    result = answer("run", "--problem", few_runs_file("relu", tmp_path), "--auto")
    assert (result["state"], result["best"]["status"]) == ("ACCEPTED", "PASSED")
    session = result["session"]
    assert session in {row["id"] for row in here("sessions")}
    assert here("show", session[:6])["steps"][0]["status"] == "PASSED"
    recording = tmp_path / "session.jsonl.gz"
    assert here("export", session, "--format", "jsonl", "-o", recording)["path"] == str(recording)
    imported = here("import", recording)
    assert imported["steps"] == len(result["steps"])
    again = here("replay", recording)
    assert again["state"] == "ACCEPTED"
    assert again["best"]["candidate"] == result["best"]["candidate"]


@pytest.mark.thorough
def test_an_engine_killed_in_the_middle_goes_on_and_repeats_nothing(workspace_home, tmp_path):
    problem = str(few_runs_file("tanh", tmp_path))
    command = [sys.executable, "-m", "cutegen_core.cli", "run", "--problem", problem, "--auto", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    store = Store()

    def session():
        return next((r.id for r in views.session_rows(store) if r.problem == "tanh"), None)

    wait_until(lambda: session() and len(store.events(session())) > 12)
    before = store.events(session())
    os.kill(int((workspace_home / "engine.lock").read_text()), signal.SIGKILL)
    out, _ = running.communicate(timeout=200)
    assert json.loads(out)["state"] == "ACCEPTED"
    after = store.events(session())
    assert after[: len(before)] == before
    assert [r.seq for r in after] == list(range(1, len(after) + 1))
    steps = views.session_view(store, session()).steps
    assert len({step.candidate for step in steps if step.candidate}) == sum(
        step.candidate is not None for step in steps
    )


TABLES = ("events", "blobs", "inbox", "live", "drafts", "trials", "sessions")


@pytest.fixture
def stocked(tmp_path, monkeypatch):
    """A workspace with an imported session."""
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    recording = next((ROOT / "assets").rglob("*.jsonl*"))
    assert cli.main(["import", str(recording)]) == 0
    (session,) = Store().sessions()
    return tmp_path / "store.db", session


def asked(session, capfd):
    """Yield what every command that reads a session says: exit code, and the error."""
    for command in (["show", session], ["sessions"], ["export", session, "--format", "jsonl", "-o", "x.jsonl"]):
        capfd.readouterr()
        code = cli.main([*command, "--json"])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        yield command[0], code, json.loads(out), err


@pytest.mark.parametrize("table", TABLES)
def test_a_row_or_a_table_that_is_missing_is_said_clearly(stocked, table, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path, session = stocked
    db = sqlite3.connect(path)
    for change in (f"DELETE FROM {table}", f"DROP TABLE {table}"):
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute(change)
        db.commit()
        for command, code, document, err in asked(session, capfd):
            assert code == (2 if "error" in document else 0), (change, command, err)
            if code:
                assert len(document["error"]) > 20
    db.close()


@pytest.mark.parametrize("damage", ["no database", "empty", "cut", "a folder"])
def test_a_damaged_store_is_said_clearly(stocked, damage, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path, session = stocked
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = path.read_bytes()
    for beside in path.parent.glob("store.db*"):
        beside.unlink()
    if damage == "a folder":
        path.mkdir()
    else:
        path.write_bytes({"no database": b"x" * 9000, "empty": b"", "cut": data[: len(data) // 3]}[damage])
    for command, code, document, err in asked(session, capfd):
        if command == "sessions" and damage == "empty":
            assert (code, document) == (0, [])
            continue
        assert code == 2, (command, err)
        assert "store" in document["error"] or "no session" in document["error"]


def test_one_engine_per_workspace():
    engine.ensure_running()
    wait_until(engine.is_running)
    second = subprocess.run(
        [sys.executable, "-m", "cutegen_core.engine"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert second.returncode == 0
    assert "another engine serves this workspace" in second.stderr
    time.sleep(0.1)
    assert engine.is_running()


@pytest.mark.thorough
def test_a_run_for_a_file_of_the_users(tmp_path):
    path = few_runs_file("swish", tmp_path, "mine")
    result = answer("run", "--problem", path, "--auto", "--max-steps", 1, code=1)
    assert result["state"] == SessionState.EXHAUSTED
    assert result["best"]["status"] == "PASSED"


@pytest.mark.parametrize(
    ("arguments", "said_"),
    [
        (["--strategy", "astra", "--problem", "relu"], "the problem 'relu' names none"),
        (["--strategy", "astra", "--problem", "silu_and_mul", "--role", "proposer=llm"], "has no role 'proposer'"),
        (["--problem", "silu_and_mul", "--role", "planning=person"], "the strategy 'cutegen' has no role 'planning'"),
        (["--problem", "silu_and_mul", "--single-agent"], "has no twin with one role"),
    ],
)
def test_roles_that_do_not_fit_are_refused_before_anything_runs(said, arguments, said_):
    code, document, _ = said("run", *arguments)
    assert (code, said_ in document["error"]) == (2, True), document


@pytest.mark.parametrize(
    ("arguments", "said_"),
    [
        (["--width", "2"], "several candidates a step need a language model"),
        (["--models", "one,two"], "several candidates a step need a language model"),
        (["--budget-money", "2"], "nothing else costs money"),
        (["--proposer", "llm", "--base-url", "http://localhost:1/v1", "--model", "m", "--budget-money", "2"],
         "a limit in money needs the prices of m; set them on the Setup page"),
        (["--proposer", "llm", "--base-url", "http://localhost:1/v1", "--model", "m", "--models", "n"],
         "no model is called 'n'"),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_are_refused_before_anything_runs(said, arguments, said_, monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    code, document, _ = said("run", "--problem", "relu", *arguments)
    assert (code, said_ in document["error"]) == (2, True), document


def test_a_model_that_is_named_again_keeps_its_prices(said, monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    text = '[models.m]\nbase_url = "http://localhost:1/v1"\nmodel = "m"\nprice_in_per_million = 2.0\n'
    model_settings.path().write_text(
        f"{text}price_out_per_million = 8.0\ncontext_tokens = 4000\nmax_output_tokens = 99\n"
    )
    said("run", "--problem", "relu", "--proposer", "llm", "--base-url", "http://localhost:2/v1", "--model", "m",
         "--models", "nobody")  # fmt: skip
    [kept] = model_settings.read().settings
    assert (kept.base_url, kept.price_out_per_million, kept.context_tokens) == ("http://localhost:2/v1", 8.0, 4000)


@pytest.mark.parametrize("role", ["planner=llm", "planning=nobody", "planning"])
def test_a_role_is_written_as_role_and_who(role, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--problem", "silu_and_mul", "--strategy", "astra", "--role", role])
    assert ended.value.code == 2
    assert "is none of" in capsys.readouterr().err


def test_a_taken_port_is_named_with_what_to_do(capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["app", "--no-browser", "--port", str(port)]) == 2
    assert f"port {port} cannot be used: Address already in use" in capfd.readouterr().err


def test_the_process_becomes_the_server(monkeypatch, tmp_path):
    """A server that was a child of it went on when `cutegen app` was ended by another signal than Ctrl+C."""
    become = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda program, arguments: become.append((program, arguments)))
    cli.main(["app", "--no-browser", "--port", str(free_port())])
    ((program, arguments),) = become
    assert (program, arguments[:4]) == (sys.executable, [sys.executable, "-m", "streamlit", "run"])
    assert Path(arguments[4]).name == "app.py"


@pytest.mark.parametrize("arguments", [["problems"], ["problems", "--json"], ["sessions", "--json"]])
def test_an_output_that_cannot_be_written_is_said_in_one_line(workspace_home, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cutegen_core.cli", *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "cutegen: No space left on device\n")


def test_a_kernel_file_is_tuned_from_the_shell(here, tmp_path):
    tuned = tmp_path / "tuned.cu"
    found = here("tune", RELU, "--problem", few_runs_file("relu", tmp_path), "-o", tuned)
    chosen = found["sweep"]["rows"][found["sweep"]["chosen"]]
    assert chosen["status"] == "PASSED"
    assert tuned.read_text() == found["source"]
    assert kernel_file.parse(found["source"]).defaults() == chosen["params"]


def test_what_cannot_be_tuned_says_why(workspace_home, tmp_path, capsys):
    fixed = tmp_path / "fixed.cu"
    fixed.write_text(re.sub(r", values = \[[^]]*\]", "", Path(RELU).read_text()))
    assert cli.main(["tune", str(fixed), "--problem", "relu"]) == 2
    assert "has nothing to tune" in capsys.readouterr().err
    assert cli.main(["tune", str(RELU), "--problem", "relu", "-o", str(tmp_path / "none" / "x.cu")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
