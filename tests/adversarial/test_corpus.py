"""The corpus on the emulator: no hostile kernel passes, no honest one is blocked, and each verdict says why.

Two processes try everything once, by the same command a GPU is tried with (`run`); each case is then one test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cutegen_core.records.trial import Status
from tests.adversarial.corpus import CORPUS, applying, named
from tests.adversarial.run import Row

PROCESSES = 2
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory, workspace_home: Path) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("adversarial")
    files = [folder / f"{part}.json" for part in range(PROCESSES)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.adversarial.run", "--shard", f"{part}/{PROCESSES}", "--results", file],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for part, file in enumerate(files)
    ]  # fmt: skip
    said = [process.communicate()[0] for process in running]
    for process, text in zip(running, said, strict=True):
        assert process.returncode in (0, 1), text[-4000:]
    return {name: row for file in files for name, row in json.loads(file.read_text())["rows"].items()}


@pytest.mark.parametrize("name", [case.name for case in applying("cpu")])
def test_the_verdict_and_its_evidence(rows: dict[str, Row], name: str) -> None:
    row = rows[name]
    assert not row["wrong"], f"{named(name).story}: {row['status']}: {row['wrong']}\n{row['evidence']}"


def test_no_hostile_kernel_passed_and_no_honest_one_was_blocked(rows: dict[str, Row]) -> None:
    passed = {name for name, row in rows.items() if row["status"] == Status.PASSED}
    hostile = {case.name for case in applying("cpu") if case.hostile}
    honest = {case.name for case in applying("cpu") if not case.hostile}
    assert (len(hostile) >= 45, len(honest) >= 22) == (True, True)
    assert not passed & hostile
    assert not {name for name in honest - passed if rows[name]["status"] != Status.UNSUPPORTED}


def test_every_case_has_a_name_of_its_own_and_attacks_something() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    assert all(case.emulator or case.gpu for case in CORPUS)
    assert all(case.story for case in CORPUS)
