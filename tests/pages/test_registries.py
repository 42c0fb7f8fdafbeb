"""A pane and an export format are added as a contributor adds them: one record in a table, and both are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import cli
from cutegen_core.records.decision import Gate
from cutegen_core.records.job import JobKind
from cutegen_core.share.exports import FORMATS, Format, export
from cutegen_core.share.exports.format import OfKernel, OfSession, text_file
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from cutegen_core.views import StepView
from tests.later import Later
from tests.pages.conftest import OpenPage, shown
from tests.pages.stories import Story, softmax_story

if TYPE_CHECKING:
    from pages.components.session.evidence.pane import PaneInput

st = Later("streamlit")
pane, panes = (Later(f"pages.components.session.evidence.{name}") for name in ("pane", "panes"))


def render_sizes(given: PaneInput) -> None:
    st.html(f"<p>{len(given.tried.source.splitlines())} lines, {given.evidence.headline}</p>")


def is_repair(shown: StepView) -> bool:
    return shown.step.repair


def test_a_pane_is_a_module_and_a_line(store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    added = (
        pane.Pane("sizes", "sizes of it", render_sizes),
        pane.Pane("mends", "mends", render_sizes, shown_when=is_repair),
    )
    monkeypatch.setattr(panes, "PANES", (*panes.PANES, *added))
    session = softmax_story(store).session
    page = open_page("session", id=session, step=3, pane="sizes")
    assert "lines, PASSED</p>" in shown(page)
    titles = {option.content for group in page.get("button_group") for option in group.proto.options}
    assert {"correctness", "sizes of it"} <= titles
    assert "mends" not in titles, "no repair"
    assert "lines, PASSED" not in shown(open_page("session", id=session, step=3))


def test_a_pane_of_a_trial_waits_for_one(store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panes, "PANES", (*panes.PANES, pane.Pane("sizes", "sizes", render_sizes)))
    story = Story(store).begin()
    story.gate(Gate.DIFF, story.propose("not tried", "an idea"))
    page = open_page("session", id=story.session, pane="sizes")
    assert "</p>" not in shown(page), "the kernel has the room"
    assert 'class="cg-code"' in shown(page)
    titles = {option.content for group in page.get("button_group") for option in group.proto.options}
    assert "sizes" not in titles


def test_every_pane_has_a_key_of_its_own() -> None:
    keys = [pane.key for pane in panes.PANES]
    assert len(keys) == len(set(keys))


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = OfSession(lambda store, session, path: path.write_text(f"{session}\n", encoding="utf-8"), "only its id")
    for found in (
        Format("id", "the session's id alone", ".txt", ids),
        Format("kernel", "the kernel file as it is", ".cu", OfKernel(text_file(lambda b: b.kernel.text))),
    ):
        monkeypatch.setitem(FORMATS, found.key, found)  # type: ignore[misc]


@pytest.mark.usefixtures("added")
def test_a_format_is_in_the_menu_of_the_page_and_makes_its_file(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session)
    menu = page.selectbox(key="export-format")
    assert {"id: the session's id alone", "kernel: the kernel file as it is"} <= set(menu.options)
    assert "The best kernel. nvcc compiles it first" in shown(page)
    menu.select("id").run()
    assert "The whole session. You can go on meanwhile" in shown(page)
    page.button(key="export-make").click().run()
    (asked,) = jobs.every(store, JobKind.EXPORT)
    assert (json.loads(asked.settings)["format"], asked.title.endswith(".txt")) == ("id", True)


@pytest.mark.usefixtures("added")
def test_a_format_is_in_the_help_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "id: the session's id alone" in said
    assert "kernel: the kernel file as it is" in said


@pytest.mark.usefixtures("added")
def test_a_format_is_written_by_name(store: Store, tmp_path: Path) -> None:
    session = softmax_story(store).session
    done = export(store, session, "id", tmp_path / "out.txt")
    assert (done.path.read_text(), done.checked, done.note) == (f"{session}\n", "n/a", "only its id")
