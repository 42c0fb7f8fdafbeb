"""`cutegen gnn`: a run in the foreground, wrong values, Ctrl-C, recorded runs in and out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cutegen_core.cli import main
from cutegen_core.commands import gnn
from cutegen_core.records.gnn_fields import FIELDS
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.engine.double_engine import DOUBLE
from tests.engine.test_jobs import lives
from tests.patience import PATIENCE_S, wait_until
from tests.places import ROOT

TINY = (
    "--graph-nodes",
    "600",
    "--fanouts",
    "3,2",
    "--inference-fanouts",
    "3,2",
    "--hidden",
    "8",
    "--batch-size",
    "128",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace_home: Path) -> Path:
    """A workspace of its own, with the builds of the run's."""
    own = tmp_path / "home"
    own.mkdir()
    (workspace_home / "cache").mkdir(exist_ok=True)
    (own / "cache").symlink_to(workspace_home / "cache")
    monkeypatch.setenv("CUTEGEN_HOME", str(own))
    return tmp_path


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gnn, "MODULE", DOUBLE)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """Return the exit code, the JSON document, and what stands on stderr."""
    code = main(["gnn", *arguments, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


@pytest.mark.parametrize("program", ["double", pytest.param("", id="real", marks=pytest.mark.thorough)])
def test_a_run_trains_and_its_file_opens_elsewhere(
    program: str, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str], home: Path
) -> None:
    if program:
        request.getfixturevalue(program)
    file = home / "a.gnn.json"
    code, result, told = asked(capfd, "train", *TINY, "--epochs", "2", "--save", str(file))
    assert code == 0
    assert (result["graph"]["nodes"], len(result["epochs"])) == (600, 2)
    assert "epoch 2: " in told
    code, imported, _ = asked(capfd, "import", str(file))
    assert (code, imported["epochs"]) == (0, 2)
    assert jobs.get(Store(), imported["job"]).origin == "imported from a.gnn.json"
    code, written, _ = asked(capfd, "export", imported["job"][:6], "-o", str(home / "b.gnn.json"))
    assert (code, written["job"]) == (0, imported["job"])


def test_a_graph_is_converted(capfd: pytest.CaptureFixture[str], home: Path) -> None:
    code, document, _ = asked(capfd, "convert", str(home / "missing"), "-o", str(home / "out"))
    assert code == 2
    assert "missing" in document["error"]
    graph = home / "graph"
    graph.mkdir()
    (graph / "edges.csv").write_text("source,target\n0,1\n1,2\n2,0\n1,2\n")
    (graph / "nodes.csv").write_text("label,split,f\n0,train,1.5\n1,valid,2.5\n0,test,0.5\n")
    code, made, _ = asked(capfd, "convert", str(graph), "-o", str(home / "graph.npz"))
    assert (code, made["graph"]["edges"], made["repeated_edges"]) == (0, 3, 1)
    assert (home / "graph.npz").exists()


def test_without_json_the_figures_are_printed(double: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gnn", "train", "--graph-nodes", "100", "--graph-degree", "3", "--epochs", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("train sage on blocks 100, pipelined, cpu: computed on this CPU\n")
    assert "P: epoch over its longest stage" in out
    assert "test accuracy, all neighbours" in out


@pytest.mark.parametrize("field", [field for field in FIELDS if field.name != "task"], ids=lambda field: field.name)
def test_a_wrong_value_of_any_setting_is_refused_like_a_shell(field: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "a\0b" if field.name == "checkpoint" else "" if field.name == "graph.source" else "\x1b[31mwrong"
    with pytest.raises(SystemExit) as left:
        main(["gnn", "train", field.option, wrong])
    told = capsys.readouterr().err
    assert left.value.code == 2
    assert f"cutegen gnn train: error: argument {field.option}: " in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--fanouts", "3,2"), "--inference-fanouts: The model has 2 layers by its fanouts"),
        (("infer",), "--checkpoint: To infer, name the folder"),
        (("train", "--aggregate", "kernel:abcd1234.1"), "--aggregate: no session 'abcd1234'"),
        (("train", "--save", "/no/such/folder/x"), "--save: there is no folder /no/such/folder"),
        (("import", "/no/such/file"), "cannot read /no/such/file"), (("export", "x", "-o", "y"), "no job 'x'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(
    arguments: Sequence[str], said: str, double: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document, told = asked(capsys, *arguments)
    assert (code, list(document)) == (2, ["error"])
    assert said in document["error"]
    assert said in told


@pytest.mark.parametrize(
    ("source", "said"),
    [("refuse", "no graph in /nowhere"), ("crash", "exit code 7"), ("quiet", "exit code 0 and without a result")],
)
def test_a_run_that_fails_says_why(source: str, said: str, double: None, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = asked(capsys, "train", "--graph", source)
    assert code == 2
    assert said in document["error"]


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(home: Path) -> None:
    """But for the epochs: the first run has more than any machine does while this waits."""
    start = "from cutegen_core.commands import gnn; from cutegen_core.cli import main; import sys\n"
    start += f"gnn.MODULE = {DOUBLE!r}; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "gnn", "train", "--json", "--graph-nodes", "100",
               "--checkpoint", str(home / "kept"), "--epochs"]  # fmt: skip
    endless = [*command, "9999"]
    with subprocess.Popen(endless, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until((home / "kept" / "epoch").exists)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "goes on where it was" in json.loads(out)["error"]
    assert "Traceback" not in told
    assert children
    assert not any(lives(pid) for pid in children)
    last = int((home / "kept" / "epoch").read_text()) + 2
    again = [*command, str(last)]
    done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "epoch 1:" not in done.stderr
    assert f"epoch {last}:" in done.stderr
