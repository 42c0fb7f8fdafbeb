"""The corpus on the emulator: no hostile kernel passes, no honest one is blocked, and each verdict says why.

The files of the corpus are ordered by kind: neighbours try the same in different words. One in ONE_IN is tried by
default, the others are thorough. The cases are two groups, so that two workers of pytest-xdist try half of them each.
Mistakes and right kernels of files, which the command tries too, are in `test_mistakes`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cutegen_core.records.trial import Status
from tests.adversarial import run
from tests.adversarial.bench import Bench
from tests.adversarial.case import evidence, judged
from tests.adversarial.corpus import CORPUS, applying, named
from tests.places import ROOT
from tests.shared_tools import SharedTools

ONE_IN = 145
CASES = [
    pytest.param(
        case.name,
        marks=(
            pytest.mark.xdist_group(f"corpus {number // ONE_IN % 2}"),
            *((pytest.mark.thorough,) if number % ONE_IN else ()),
        ),
    )
    for number, case in enumerate(applying("cpu", CORPUS))
]


@pytest.fixture(scope="module")
def bench(shared: SharedTools) -> Iterator[Bench]:
    with Bench("cpu", shared=shared) as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_and_its_evidence(bench: Bench, name: str) -> None:
    case = named(name)
    trial = bench.evaluate(case)
    wrong = judged(case, trial)
    assert not wrong, f"{case.story}: {trial.status}: {wrong}\n{evidence(trial)}"
    assert (trial.status is Status.PASSED) <= (not case.hostile), "a hostile kernel passed"
    assert case.hostile or trial.status in (Status.PASSED, Status.UNSUPPORTED), "an honest kernel was blocked"


def test_there_are_enough_kernels_of_both_kinds() -> None:
    hostile = [case for case in applying("cpu") if case.hostile]
    assert len(hostile) >= 400
    assert len(applying("cpu")) - len(hostile) >= 60


def test_every_case_has_a_name_of_its_own_and_attacks_something() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    assert all(case.emulator or case.gpu for case in CORPUS)
    assert all(case.story for case in CORPUS)


def test_the_command_that_a_gpu_is_tried_with_writes_rows_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run twice, the second time in this process: what has its row is passed over. Both kernels are refused before any compiler sees them."""
    file, asked = tmp_path / "rows.json", ("a constructor", "incbin at file scope")
    command = ["-m", "tests.adversarial.run", "--results", str(file), "--only"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, *command, asked[0]], cwd=ROOT, env=environment, check=True, capture_output=True)
    assert set(json.loads(file.read_text())["rows"]) == {asked[0]}
    monkeypatch.setattr(sys, "argv", [*command[1:], *asked])
    assert run.main() == 0
    found = json.loads(file.read_text())
    assert set(found["rows"]) == set(asked)
    assert (found["hostile"], found["hostile_given_passed"], found["not_as_expected"]) == (2, 0, [])
    assert [row["status"] for row in found["rows"].values()] == [Status.REJECTED, Status.REJECTED]
