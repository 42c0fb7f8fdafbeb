"""The law of a trial: which fields each status fills and leaves empty, also when a stored trial is read."""

from __future__ import annotations

import pytest

from cutegen_core.records import as_json
from cutegen_core.records.errors import StoreError
from cutegen_core.records.performance import Performance
from cutegen_core.records.trial import LAWS, Correctness, Diagnostic, ExecutorKind, Mark, Resources, Status, Trial

FILLED = {
    "message": "said",
    "diagnostics": (Diagnostic(1, "error", "said", "plan"),),
    "resources": Resources("sm_90a", (), ()),
    "correctness": Correctness(ExecutorKind.CPU, ()),
    "performance": Performance(),
    "marks": (Mark.NOT_TIMED,),
}


def lawful(status: Status) -> dict[str, object]:
    return {name: FILLED[name] for name in LAWS[status].must}


@pytest.mark.parametrize("status", Status)
def test_a_trial_with_what_its_status_needs_survives_the_store(status: Status) -> None:
    trial = Trial("a" * 64, status, (), ExecutorKind.CPU, **lawful(status))
    assert as_json.load(Trial, as_json.dump(trial)) == trial


@pytest.mark.parametrize(("status", "name"), [(s, n) for s in Status for n in LAWS[s].must])
def test_a_field_that_the_status_needs_cannot_be_left_out(status: Status, name: str) -> None:
    fields = {n: v for n, v in lawful(status).items() if n != name}
    with pytest.raises(ValueError, match=f"{status} trial must carry {name}"):
        Trial("a" * 64, status, (), ExecutorKind.CPU, **fields)


@pytest.mark.parametrize(("status", "name"), [(s, n) for s in Status for n in LAWS[s].must_not])
def test_a_field_that_contradicts_the_status_is_refused(status: Status, name: str) -> None:
    with pytest.raises(ValueError, match=f"{status} trial must not carry {name}"):
        Trial("a" * 64, status, (), ExecutorKind.CPU, **lawful(status), **{name: FILLED[name]})


def test_only_a_passed_trial_has_marks() -> None:
    assert all("marks" in LAWS[status].must_not for status in Status if status is not Status.PASSED)


def test_marks_are_stored_as_their_names_and_an_unknown_one_is_refused() -> None:
    trial = Trial("a" * 64, Status.PASSED, (), ExecutorKind.CPU, **lawful(Status.PASSED), marks=(Mark.UNSTABLE,))
    text = as_json.dump(trial)
    assert '"marks":["UNSTABLE"]' in text
    with pytest.raises(StoreError, match=r"marks\.0"):
        as_json.load(Trial, text.replace("UNSTABLE", "LUCKY"))
