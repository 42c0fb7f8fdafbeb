"""Start, compare, problems and setup, each run for real; and the frame around them."""

from __future__ import annotations

import html
import os
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import views
from cutegen_core.cli import main
from cutegen_core.machine.device import choose_device, detect
from cutegen_core.problems import library
from cutegen_core.records.event import SessionState
from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.pages.conftest import OpenPage, drawn_until, framed, shown
from tests.pages.stories import hostile_story, softmax_story
from tests.patience import PATIENCE_S

new_session = Later("pages.components.problems.new_session")
doctor = Later("pages.components.setup.doctor")

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

testing = Later("streamlit.testing.v1")

SOFTSIGN = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x / (1 + torch.abs(x))

batch_size = 16
dim = 64
WORKLOADS = {"small": {"role": "emulator", "batch_size": 3, "dim": 17}}

def get_inputs():
    return [torch.randn(batch_size, dim)]

def get_init_inputs():
    return []
"""


def test_start_page_offers_the_three_ways_in(store: Store) -> None:
    softmax_story(store)
    page = framed()
    text = shown(page)
    assert "Start a new session" in text
    assert "Load a KernelBench file or folder" in text
    assert "Continue a session · 1" in text
    assert page.selectbox(key="new-problem").value == "softmax"
    assert not page.button(key="new-start-any").disabled


def test_a_link_to_a_problem_that_is_not_there_says_so(store: Store) -> None:
    page = framed("start", problem="nonexistent", proposer="nobody")
    assert page.selectbox(key="new-problem").value == "softmax"
    said = html.unescape(shown(page))
    assert "the problem 'nonexistent', which there is not; softmax is chosen" in said
    assert "the proposer 'nobody', which there is not" in said
    assert "which there is not" not in shown(framed("start", problem="relu"))


def test_a_session_that_cannot_be_read_is_said_and_hides_no_other(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    softmax_story(store)
    torn = softmax_story(store).session
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE events SET payload = 'torn' WHERE session = ?", (torn,))
    db.close()
    text = shown(framed())
    assert f"Session {torn} cannot be read" in text
    assert "Continue a session · 1" in text
    assert main(["sessions"]) == 0
    assert f"session {torn} cannot be read" in capsys.readouterr().err


def test_starting_creates_the_session_as_chosen(store: Store) -> None:
    page = framed()
    page.selectbox(key="new-problem").select("relu")
    page.selectbox(key="new-proposer-any").select("person")
    page.number_input(key="new-steps-any").set_value(7)
    page.button(key="new-start-any").click().run()
    assert not page.exception
    (session,) = store.sessions()
    state = views.session_view(store, session).state
    assert (state.settings.problem_name, state.settings.answered_by, state.max_steps) == ("relu", "person", 7)
    assert state.status is SessionState.READY


def test_where_a_session_would_run_is_said_of_the_chosen_target(store: Store) -> None:
    page = framed()
    page.selectbox(key="new-arch-any").select("sm_80").run()
    assert "Runs on the CPU emulator: kernels are tested, not measured." in shown(page)
    here = replace(choose_device("sm_80"), name="A100 of this machine", present=True)
    assert new_session.runs_on(here).startswith("Runs on this machine's GPU (A100 of this machine): ")


def test_setup_shows_the_doctor_the_engine_and_the_target(store: Store) -> None:
    page = framed("setup")
    for _ in range(100):
        if "Python" in shown(page):
            break
        page.run()
    text = shown(page)
    assert "sm_" in text
    assert "Compilers and headers" in text
    assert "engine is not running" in text or "The engine is running" in text


def found(page: AppTest) -> AppTest:
    """Return the page once the doctor has looked at everything."""
    drawn_until(page, lambda: "GB free in" in shown(page))
    return page


def test_after_a_measurement_the_doctor_looks_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a GPU that is gone by then, in a workspace that lies elsewhere by then."""
    if detect() is not None:
        pytest.skip("would measure the GPU of this machine")
    doctor.look_again()
    monkeypatch.setattr(doctor, "detect", lambda: replace(choose_device("sm_90a"), present=True))
    page = found(framed("setup"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path / "elsewhere"))
    page.button(key="doctor-measure").click().run()
    assert f"GB free in {tmp_path};" not in shown(page)
    assert [text.value.partition(":")[0] for text in page.text] == ["Not measured"]
    assert f"GB free in {tmp_path / 'elsewhere'};" in shown(found(page))


def test_once_the_doctor_is_done_the_page_is_drawn_without_asking_further() -> None:
    def draw() -> None:
        from pages.components.setup import doctor
        from pages.components.shared import ui_state

        drawn = ui_state.kept("drawn", list)
        drawn.append(1)
        doctor._findings().result()
        doctor._table(only_what_matters=False, drawn_waiting=len(drawn) == 1)

    page = testing.AppTest.from_function(draw, default_timeout=PATIENCE_S).run()
    assert len(page.session_state["drawn"]) == 2
    assert "GB free in" in shown(page)


def test_problems_page_lists_the_catalogue_with_workloads_and_source(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="softmax")
    text = shown(page)
    assert "loaded" in text
    assert "ragged" in text
    assert "emulator" in text
    assert "torch" in text
    assert page.button(key="new-start-softmax")


def test_problems_by_path_report_loaded_of_total(store: Store, open_page: OpenPage, tmp_path: Path) -> None:
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "1_softsign.py").write_text(SOFTSIGN)
    (folder / "2_broken.py").write_text("import torch\nclass Model(:\n")
    page = open_page("problems", path=folder, name="2_broken")
    text = shown(page)
    assert "This link asks to load" in text
    assert "level1 · not loaded" in text
    text = shown(page.button(key="problems-load").click().run())
    assert "level1 · 1 of 2 loaded" in text
    assert "2_broken.py" in text
    assert "cg-error" in text


def test_files_of_the_same_stem_are_both_opened(store: Store, open_page: OpenPage, tmp_path: Path) -> None:
    for folder, own in (("a", SOFTSIGN), ("b", SOFTSIGN.replace('"dim": 17', '"dim": 19'))):
        (tmp_path / "found" / folder).mkdir(parents=True)
        (tmp_path / "found" / folder / "model.py").write_text(own)
    page = open_page("problems", path=tmp_path / "found", name="a/model")
    page.button(key="problems-load").click().run()
    assert "dim = 17" in shown(page)
    page.button(key="step-row-problem-1").click().run()
    assert page.query_params["name"] == "b/model"
    assert "dim = 19" in shown(page)


def test_a_changed_file_of_a_folder_alone_is_loaded_again(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(f"no {name} problem")
    (tmp_path / "away.py").symlink_to(tmp_path / "nowhere.py")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/named\xff.py")).write_text("no problem with such a name")
    loaded, load_entry = list[str](), library.load_entry
    monkeypatch.setattr(library, "load_entry", lambda *given: loaded.append(given[2]) or load_entry(*given))
    page = open_page("problems", path=tmp_path)
    assert "0 of 4 loaded" in shown(page.button(key="problems-load").click().run())
    assert loaded == ["away", "first", "named\udcff", "second"]
    page.run()
    (tmp_path / "second.py").write_text("another text")
    page.run()
    assert loaded == ["away", "first", "named\udcff", "second", "second"]


def test_a_name_that_is_not_there_is_an_error_and_no_other_problem(store: Store, open_page: OpenPage) -> None:
    page = open_page("problems", name="softmaxx", edit=1)
    assert "There is no problem “softmaxx” here" in shown(page)
    assert not [b for b in page.button if (b.key or "").startswith(("new-start", "step-row-shown"))]
    assert page.button(key="step-row-problem-0")


def test_a_path_that_is_not_there_says_so(store: Store) -> None:
    assert "neither a file nor a folder" in shown(framed("problems", path="/nowhere/at/all"))


def test_compare_shows_source_and_resource_changes(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    text = shown(open_page("compare", a=f"{story.session}.1", b=f"{story.session}.3"))
    assert "7 lines added, 2 removed" in text
    assert "▲ +6" in text
    assert "needs a GPU" in text


def test_compare_takes_two_sessions_and_says_what_it_does_not_know(store: Store, open_page: OpenPage) -> None:
    one, other = softmax_story(store), hostile_story(store)
    text = shown(open_page("compare", a=f"{one.session}.1", b=f"{other.session}.2"))
    assert "<img" not in text
    assert "There is no session “gone”" in shown(open_page("compare", a="gone.1", b=f"{one.session}.77"))


def test_pages_never_import_torch(store: Store) -> None:
    before = "torch" in sys.modules
    framed("problems")
    framed("setup")
    assert before or "torch" not in sys.modules


def test_no_module_of_the_pages_hides_one_of_pythons():
    """Streamlit puts the frame's folder on the path, which processes started from a page inherit."""
    ours = {path.stem for path in Path("pages/components").glob("*.py")}
    assert not ours & sys.stdlib_module_names
