"""The problems page: editing in fields and in the text, keeping it, the lint, starting a session on what was edited."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import views
from cutegen_core.problems import edit, library, saved
from cutegen_core.problems.read import read as read_problem_text
from cutegen_core.records.problem import Problem, Tolerance, Values, Workload, WorkloadRole
from cutegen_core.trajectory.store import Draft, Store
from tests.later import Later
from tests.pages.conftest import OpenPage, drawn_until, shown
from tests.places import DATA

st = Later("streamlit")
problem_draft = Later("pages.components.problems.problem_draft")

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SOFTMAX = "problem:softmax of built-in"
LOUD = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
n = 512
def get_inputs():
    return [torch.rand(n, n)]
"""


def text_of(page: AppTest, key: str = SOFTMAX) -> str:
    return str(page.text_area(key=f"{key}-text").value)


def fill(page: AppTest, key: str, value: str) -> AppTest:
    page.text_input(key=key).set_value(value).run()
    assert not page.exception
    return page


def click(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    assert not page.exception
    return page


def kept(store: Store) -> str:
    draft = store.draft(SOFTMAX)
    assert draft is not None
    return draft.text


# -- fields and text ---------------------------------------------------------------------------------------------------


def test_a_size_changed_in_its_field_changes_the_text_and_survives_a_reload(store: Store, open_page: OpenPage) -> None:
    page = fill(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-2-size-dim", "999")
    assert '"ragged": {"role": "emulator", "batch_size": 5, "dim": 999}' in text_of(page)
    again = open_page("problems", name="softmax", edit=1)
    assert again.text_input(key=f"{SOFTMAX}-2-size-dim").value == "999"
    assert "≠ workload ragged" in shown(again)
    assert "≠ edited" in shown(open_page("problems", name="softmax"))


@pytest.mark.thorough
def test_role_values_name_and_tolerance_are_fields_too(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="softmax", edit=1)
    page.selectbox(key=f"{SOFTMAX}-0-values").select(Values.SPARSE).run()
    page.selectbox(key=f"{SOFTMAX}-0-role").select(WorkloadRole.CORRECTNESS).run()
    fill(page, f"{SOFTMAX}-0-name", "single")
    fill(page, f"{SOFTMAX}-tolerance-float32-rtol", "0.5")
    fill(page, f"{SOFTMAX}-tolerance-float32-error_multiple", "8")
    click(page, f"{SOFTMAX}-tolerance-add-float16")
    read = read_problem_text(kept(store), "softmax", "softmax.py")
    assert (read.workloads[0].name, read.workloads[0].role, read.workloads[0].values) == (
        "single", WorkloadRole.CORRECTNESS, Values.SPARSE,
    )  # fmt: skip
    assert read.tolerance["float32"] == Tolerance(1e-6, 0.5, 8.0)
    assert set(read.tolerance) == {"float32", "float16"}
    assert "rtol 0.5 (default 0.0001)" in shown(page), "a loose tolerance is warned of at once"


def test_workloads_are_added_and_removed(store: Store, open_page: OpenPage) -> None:
    page = click(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-add")
    assert page.text_input(key=f"{SOFTMAX}-8-name").value == "test 1"
    assert '"test 1": {"role": "emulator", "batch_size": 7, "dim": 1023}' in text_of(page), "sizes that no other has"
    click(page, f"{SOFTMAX}-0-remove")
    assert "workload one removed" in shown(page)
    names = [w.name for w in read_problem_text(kept(store), "s", "s.py").workloads]
    assert names == ["narrow", "ragged", "tile", "tile+1", "large_mean", "large_scale", "medium", "test 1", "benchmark"]


def test_an_empty_size_is_the_files_own(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="softmax", edit=1)
    assert page.text_input(key=f"{SOFTMAX}-8-size-dim").placeholder == "16384"
    fill(page, f"{SOFTMAX}-2-size-dim", "")
    assert '"ragged": {"role": "emulator", "batch_size": 5}' in text_of(page)


@pytest.mark.by_default(3)
@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("2-size-dim", "0", "workload &#x27;ragged&#x27; sets dim = 0: a size is at least 1"),
        ("2-size-dim", "many", "is no number"),
        ("0-name", "ragged", "two workloads are called &#x27;ragged&#x27;"),
        ("0-name", " ", "needs a name"),
        ("tolerance-float32-atol", "-1", "TOLERANCE[&#x27;float32&#x27;] needs atol and rtol"),
        ("tolerance-float32-atol", "9" * 400, "float32 atol is too large for a floating-point number"),
        ("tolerance-float32-atol", "1e999", "is no number"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    field: str, typed: str, words: str, store: Store, open_page: OpenPage
) -> None:
    page = open_page("problems", name="softmax", edit=1)
    before = page.text_input(key=f"{SOFTMAX}-{field}").value
    fill(page, f"{SOFTMAX}-{field}", typed)
    assert "Not changed." in shown(page)
    assert words in shown(page)
    assert page.text_input(key=f"{SOFTMAX}-{field}").value == before
    assert store.draft(SOFTMAX) is None


def test_a_text_that_cannot_be_read_is_kept_and_its_line_is_shown(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="softmax", edit=1)
    broken = text_of(page).replace("return torch.softmax(x, dim=1)", "return torch.softmax(x dim=1)")
    page.text_area(key=f"{SOFTMAX}-text").set_value(broken).run()
    number = 1 + broken.splitlines().index("        return torch.softmax(x dim=1)")
    page = open_page("problems", name="softmax", edit=1)
    assert text_of(page) == broken
    assert f"softmax.py:{number}: not valid Python" in shown(page)
    assert '<tr class="cg-bad"><td class="cg-ln"' in shown(page)
    assert not [b for b in page.button if b.key == "new-start-softmax"], "nothing is started on what cannot be read"


def test_fields_changed_in_two_tabs_both_count(store: Store, open_page: OpenPage) -> None:
    first, second = (open_page("problems", name="softmax", edit=1) for _ in range(2))
    fill(second, f"{SOFTMAX}-2-size-dim", "998")
    fill(first, f"{SOFTMAX}-3-size-dim", "997")
    assert '"dim": 998' in kept(store)
    assert '"dim": 997' in kept(store)


def test_a_text_typed_upon_an_older_one_is_neither_kept_nor_lost(store: Store, open_page: OpenPage) -> None:
    first, second = (open_page("problems", name="softmax", edit=1) for _ in range(2))
    fill(second, f"{SOFTMAX}-2-size-dim", "998")
    mine = text_of(first) + "\n# mine\n"
    first.text_area(key=f"{SOFTMAX}-text").set_value(mine).run()
    assert "was changed meanwhile" in shown(first)
    assert (text_of(first), "# mine" in kept(store)) == (mine, False)
    click(first, "problem-mine")
    assert kept(store) == mine == text_of(first)
    fill(first, f"{SOFTMAX}-2-size-dim", "996")
    second.text_area(key=f"{SOFTMAX}-text").set_value("nonsense").run()
    assert text_of(click(second, "problem-theirs")) == kept(store)


def test_sizes_found_for_a_text_that_changed_meanwhile_are_not_lost(
    store: Store, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is changed in another tab while the reference is run here: its scratch folder is there by then."""
    page = open_page("problems", new=1)
    page.text_area(key="problem:new-text").set_value(LOUD).run()
    drawn, theirs = store.draft("problem:new"), Draft("", LOUD + "# theirs\n")
    (tmp_path / "cache").unlink()  # no answer of an earlier run stands for it
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def change() -> None:
        while not list(tmp_path.glob("cutegen-problems-*")):
            time.sleep(0.01)
        assert drawn is not None
        store.replace_draft("problem:new", drawn, theirs)

    other = threading.Thread(target=change, daemon=True)
    other.start()
    click(page, "problem-derive")
    other.join()
    assert "was changed meanwhile" in shown(page)
    assert "WORKLOADS = {" in text_of(page, "problem:new")
    assert store.draft("problem:new") == theirs
    click(page, "problem-mine")
    assert "WORKLOADS = {" in text_of(page, "problem:new") == getattr(store.draft("problem:new"), "text", "")


def test_reset_forgets_the_draft(store: Store, open_page: OpenPage) -> None:
    page = fill(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-2-size-dim", "999")
    click(page, "problem-reset")
    assert store.draft(SOFTMAX) is None
    assert "≠" not in shown(page)
    assert page.text_input(key=f"{SOFTMAX}-2-size-dim").value == "1021"


# -- kept under a name, and started ------------------------------------------------------------------------------------


def test_an_edited_problem_is_saved_under_a_name_and_says_what_it_was_made_from(
    store: Store, open_page: OpenPage
) -> None:
    page = fill(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-2-size-dim", "999")
    fill(page, f"{SOFTMAX}-name", "softmax")
    click(page, "problem-save")
    assert "is a built-in problem" in shown(page)
    fill(page, f"{SOFTMAX}-name", "softmax_999")
    click(page, "problem-save")
    assert "softmax_999" in page.query_params["name"]
    assert "edited from softmax:" in shown(page)
    assert store.draft(SOFTMAX) is None
    assert next(w for w in library.load("softmax_999").workloads if w.name == "ragged").sizes["dim"] == 999
    click(page, "problem-remove")
    assert saved.find("softmax_999") is None


def test_a_session_started_from_an_edited_problem_uses_it(store: Store, open_page: OpenPage) -> None:
    page = fill(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-2-size-dim", "999")
    page.button(key="new-start-softmax_edited").click().run()
    (session,) = store.sessions()
    settings = views.session_view(store, session).state.settings
    assert settings.problem_name == "softmax_edited"
    started = store.record(Problem, settings.problem)
    assert next(w for w in started.workloads if w.name == "ragged").sizes == {"batch_size": 5, "dim": 999}


INVERSE = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)
n = 64
WORKLOADS = {"small": {"role": "emulator", "n": 3}}
def get_inputs():
    return [torch.rand(n, n)]
"""


def test_each_problem_says_which_family_recognises_it_or_why_none_does(
    store: Store, open_page: OpenPage, tmp_path: Path
) -> None:
    (tmp_path / "loud.py").write_text(
        LOUD.replace("n = 512", 'n = 512\nWORKLOADS = {"small": {"role": "emulator", "n": 3}}')
    )
    (tmp_path / "inverse.py").write_text(INVERSE)
    page = open_page("problems", path=tmp_path, name="inverse")
    page.button(key="problems-load").click().run()
    drawn_until(page, lambda: "does not know this problem: no rule for aten.linalg_inv" in shown(page))
    assert "a model (proposer llm), any model by copy and paste" in shown(page)
    click(page, "problems-ask")
    drawn_until(page, lambda: "knows 1 of the 2" in shown(page))
    labels = [b.label.replace("\\", "") for b in page.run().button if (b.key or "").startswith("step-row")]
    assert any("not in the playbook: no rule for aten.linalg_inv" in label for label in labels), labels
    assert any("playbook: elementwise" in label for label in labels), labels
    drawn_until(page := open_page("problems", name="softmax"), lambda: "kernels for it (rows): naive" in shown(page))


def pasted(open_page: OpenPage, forward: str) -> AppTest:
    """Return a new problem of this text, which has the workloads of the example."""
    text = problem_draft.EXAMPLE.replace("torch.relu(x)", forward)
    sized = Workload("small", WorkloadRole.EMULATOR, {"batch_size": 2, "dim": 3})
    page = open_page("problems", new=1)
    page.text_area(key="problem:new-text").set_value(edit.with_workloads(text, [sized])).run()
    assert not page.exception
    return page


def start_it(page: AppTest) -> None:
    next(b for b in page.button if (b.key or "").startswith("new-start-")).click().run()
    assert not page.exception


@pytest.mark.thorough
def test_every_problem_that_nobody_named_has_a_name_of_its_own(store: Store, open_page: OpenPage) -> None:
    """In the list of sessions, and when it is saved: built-in, saved, edited and pasted ones are different problems."""

    def newest() -> str:
        return views.session_rows(store)[0].problem

    for forward, name in (
        ("torch.erf(x)", "erf"), ("torch.erf(x)", "erf"), ("torch.erf(2 * x)", "erf_2"), ("torch.relu(x)", "relu_2"),
    ):  # fmt: skip
        page = pasted(open_page, forward)
        assert page.text_input(key="problem:new-name").value == name
        start_it(page)
        assert newest() == name
    click(open_page("problems", new=1), "problem-save")
    assert saved.find("relu_2")
    assert pasted(open_page, "torch.relu(3 * x)").text_input(key="problem:new-name").value == "relu_3"
    for dim, name in (("999", "softmax_edited"), ("998", "softmax_edited_2")):
        page = fill(open_page("problems", name="softmax", edit=1), f"{SOFTMAX}-2-size-dim", dim)
        start_it(page)
        assert newest() == name


def test_an_own_reference_is_pasted_loaded_linted_and_mended(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", new=1)
    page.text_area(key="problem:new-text").set_value(LOUD.replace("torch.relu(x)", "torch.relu(y)")).run()
    click(page, "problem-derive")
    assert "new.py:4: NameError" in shown(page)
    assert "cg-bad" in shown(page)
    page.text_area(key="problem:new-text").set_value(LOUD).run()
    click(page, "problem-derive")
    assert "WORKLOADS = {" in text_of(page, "problem:new")
    click(page, "lint-run")
    drawn_until(page, lambda: "Lint: " in shown(page))
    assert "a kernel that copies x passes" in shown(page)
    offered = next(b for b in page.button if "large" in b.label and "added" in b.label)
    offered.click().run()
    assert '"values": "large_scale"' in text_of(page, "problem:new")
    fill(page, "problem:new-name", "loud")
    click(page, "problem-save")
    assert library.load("loud").workloads
    assert "loud" in {e.name for e in library.list_known().entries}


@pytest.mark.thorough
def test_a_file_without_workloads_is_edited_with_those_that_were_found(
    store: Store, open_page: OpenPage, tmp_path: Path
) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    page = open_page("problems", path=tmp_path / "loud.py", edit=1)
    page.button(key="problems-load").click().run()
    key = f"problem:loud of {tmp_path / 'loud.py'}"
    assert "WORKLOADS = {" in text_of(page, key)
    assert "≠" not in shown(page)
    assert page.text_input(key=f"{key}-0-size-n").value


def test_those_who_look_on_see_everything_and_edit_nothing(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_TOKEN", "1")  # without a cookie one is a viewer
    monkeypatch.setattr(type(st.context), "cookies", property(lambda _: {}))  # AppTest has no browser that sends any
    page = open_page("problems", name="softmax", edit=1)
    assert "ragged" in shown(page)
    assert not {b.key for b in page.button} & {"problem-edit", "problem-new", "lint-run", "problem-save"}
    assert not page.text_area


# -- the existing kernel -----------------------------------------------------------------------------------------------

KERNEL = (DATA / "relu.cu").read_text()
RELU = "problem:relu of built-in"


def typed(page: AppTest, text: str) -> AppTest:
    page.text_area(key=f"{RELU}-existing").set_value(text).run()
    assert not page.exception
    return page


def test_an_existing_kernel_is_added_shown_completed_saved_and_removed(store: Store, open_page: OpenPage) -> None:
    page = typed(open_page("problems", name="relu", edit=1), KERNEL)
    assert 'EXISTING = "relu.cu"' in text_of(page, RELU)
    assert f"existing kernel added: {len(KERNEL.splitlines())} lines" in shown(page)
    fill(page, f"plan-{RELU}-existing-0-grid", "ceil_div(n, 2 * BLOCK)")
    assert '["ceil_div(n, 2 * BLOCK)"]' in str(page.text_area(key=f"{RELU}-existing").value)
    fill(page, f"{RELU}-name", "mine")
    click(page, "problem-save")
    assert library.load("mine").existing == KERNEL.replace("ceil_div(n, BLOCK)", "ceil_div(n, 2 * BLOCK)")
    assert any("Existing kernel" in one.label for one in open_page("problems", name="mine").expander)
    page = typed(open_page("problems", name="relu", edit=1), KERNEL)
    click(page, f"{RELU}-existing-remove")
    assert 'EXISTING = ""' in text_of(page, RELU)
    assert "existing kernel" not in shown(page).replace("Existing kernel", "")


def test_a_plain_cu_gets_a_launch_plan_by_a_click(store: Store, open_page: OpenPage) -> None:
    page = typed(open_page("problems", name="relu", edit=1), (DATA / "plain" / "relu_config.cu").read_text())
    assert "a kernel file opens with a comment" in shown(page)
    click(page, f"{RELU}-existing-import")
    assert str(page.text_area(key=f"{RELU}-existing").value).startswith("/* cutegen")
    assert "Complete the launch plan: HOLE_1: tuned_threads(" in shown(page)
