"""The model loop on the pages: prompts, exchanges, diagnosis, sweep, memory, models, recordings, import and export."""

from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cutegen_core import views
from cutegen_core.engine.job_slot import JobSlots
from cutegen_core.evaluate.sweep import SweepRow, SweepTable
from cutegen_core.problems import library
from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, Effort, Gate, Ideas, StudyKind
from cutegen_core.records.event import (
    AnsweredBy,
    Decided,
    GateOpened,
    ModelAnswered,
    ModelCalled,
    Outcome,
    Proposed,
    Role,
    SessionState,
    StateChanged,
    StepClosed,
    StepStarted,
    Studied,
)
from cutegen_core.records.job import JobKind, JobState
from cutegen_core.records.trial import Status
from cutegen_core.session import start
from cutegen_core.share.exports import FORMATS, export
from cutegen_core.share.imports import import_path
from cutegen_core.trajectory import jobs
from cutegen_core.trajectory.store import Store
from tests.later import Later
from tests.model_server import MODEL, ModelServer
from tests.pages.conftest import OpenPage, button_of, framed, shown
from tests.pages.stories import HOSTILE, KERNEL, TYPO, Story, not_compiled, passed, softmax_story
from tests.patience import wait_until

imported = Later("pages.components.compare_present.imported")
recording_pictures = Later("docs.recording_pictures")

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

PROMPT = "Write one CuTe kernel. **bold**"
SECRET = "sk-canary-0123456789abcdef"
LOCAL = ModelSettings("local", "http://127.0.0.1:9/v1", "qwen")


def click(page: AppTest, key: str) -> AppTest:
    button_of(page, key).click().run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def called(story: Story, role: Role, prompt: str, reply: str, **answer: object) -> Story:
    """Return a finished call of the open step."""
    store, step = story.store, story.steps
    key = store.put(prompt)
    numbers = {"prompt_tokens": 1200, "completion_tokens": 345, "seconds": 3.2} | answer
    return story.add(
        ModelCalled(step, role, key, "qwen", 9000),
        ModelAnswered(step, role, key, store.put(reply), **numbers),  # type: ignore[arg-type]
    )


def test_the_header_says_what_a_promoted_kernel_cost(store: Store, open_page: OpenPage) -> None:
    story = called(begin_step(Story(store, answered_by=AnsweredBy.LLM).begin(), None), Role.PROPOSER, "p", "r")
    story.add(StepClosed(1, Outcome.PROMOTED))
    assert "<i>per promoted kernel</i> 1,545 tokens, 1 call" in shown(open_page("session", id=story.session))


def begin_step(story: Story, base: str | None, *, repair: bool = False) -> Story:
    story.steps += 1
    return story.add(StepStarted(story.steps, base, repair=repair))


def failed_then_diagnosed(store: Store) -> Story:
    """Return a kernel that does not compile, and a repair as far as its diagnosis."""
    story = Story(store, answered_by=AnsweredBy.LLM).begin()
    typo = story.propose(TYPO, "online maximum", author=Author.MODEL)
    story.test(not_compiled(typo)).close(Outcome.FAILED, "line 40")
    return called(begin_step(story, typo, repair=True), Role.DIAGNOSIS, "Why?", f"Cause: a typo {HOSTILE}")


# ---- the prompt gate


def waiting_prompt(store: Store, note: str = "about 12 tokens") -> Story:
    story = begin_step(Story(store, answered_by=AnsweredBy.LLM).begin(), None)
    gate = GateOpened(1, Gate.PROMPT, note=note, prompt=store.put(PROMPT), role=Role.PROPOSER)
    return story.add(gate)


def sent(store: Store, story: Story) -> Decision:
    (waiting,) = store.waiting(story.session)
    return waiting.decision


@pytest.mark.by_default(2)
@pytest.mark.parametrize(("typed", "text"), [(None, ""), ("Mine: short.", "Mine: short.")])
@pytest.mark.parametrize("button", ["prompt-send", "decide-approve"])
def test_a_prompt_is_sent_as_it_stands_in_the_field(
    store: Store, open_page: OpenPage, typed: str | None, text: str, button: str
) -> None:
    story = waiting_prompt(store)
    page = open_page("session", id=story.session)
    assert page.text_area[0].value == PROMPT
    if typed is not None:
        page.text_area[0].input(typed).run()
        assert "edited by you" in shown(page)
    click(page, button)
    decision = sent(store, story)
    assert (decision.kind, decision.gate, decision.text) == (DecisionKind.APPROVE, Gate.PROMPT, text)


def test_an_empty_prompt_is_not_sent_and_can_be_restored(store: Store, open_page: OpenPage) -> None:
    story = waiting_prompt(store)
    page = open_page("session", id=story.session)
    page.text_area[0].input("  ").run()
    assert "The prompt is empty" in shown(click(page, "prompt-send"))
    assert not store.waiting()
    assert click(page, "prompt-restore").text_area[0].value == PROMPT


def test_what_was_left_out_of_a_prompt_is_said(store: Store, open_page: OpenPage) -> None:
    story = waiting_prompt(store, "about 12 tokens; left out: the exemplars")
    assert "Left out to fit the context: the exemplars." in shown(open_page("session", id=story.session))


# ---- calls


def test_text_streams_into_the_page_as_text(store: Store, open_page: OpenPage) -> None:
    story = begin_step(Story(store, answered_by=AnsweredBy.LLM).begin(), None)
    story.add(ModelCalled(1, Role.PROPOSER, store.put(PROMPT), "qwen", 9000))
    store.set_live(story.session, f"Idea: {HOSTILE}")
    page = open_page("session", id=story.session)
    assert [t.value for t in page.text] == [f"Idea: {HOSTILE}"]
    text = shown(page)
    assert "qwen is writing" in text
    assert "<i>tokens</i> 9,000 (reserved)" in text
    assert not page.button(key="decide-stop").disabled


def test_every_exchange_is_shown_with_what_it_cost(store: Store, open_page: OpenPage) -> None:
    story = begin_step(Story(store, answered_by=AnsweredBy.LLM).begin(), None)
    called(story, Role.PROPOSER, PROMPT, "", error="the server hung up", estimated=True, finish="reset")
    called(story, Role.PROPOSER, PROMPT, f"Idea: {HOSTILE}")
    page = open_page("session", id=story.session, pane="prompt")
    text = shown(page)
    assert "1 · proposer · qwen · about 1,200 + 345 tokens · 3.2 s · finish reason: reset" in text
    assert "the server hung up" in text
    assert [code.value for code in page.code] == [PROMPT, PROMPT, f"Idea: {HOSTILE}"]
    assert "<i>tokens</i> 3,090" in text


def test_a_diagnosis_stands_beside_the_evidence_of_its_failure(store: Store, open_page: OpenPage) -> None:
    story = failed_then_diagnosed(store)
    for step in (1, 2):
        text = shown(open_page("session", id=story.session, step=step))
        assert "Diagnosis of step 1 by qwen, made for step 2" in text
        assert "identifier &quot;higher&quot; is undefined" in text
        assert "Cause: a typo &lt;img" in text
    assert "Evidence of step 1, which this step repairs" in text


def test_a_passed_repair_shows_its_own_evidence(store: Store, open_page: OpenPage) -> None:
    story = failed_then_diagnosed(store)
    good = store.put(KERNEL)
    story.add(Proposed(2, good, Author.MODEL, "online maximum")).test(passed(store, good)).promote(good)
    text = shown(open_page("session", id=story.session, step=2))
    assert "runs correct on" in text
    assert "Diagnosis of" not in text


def test_a_sweep_is_a_table_with_its_choice(store: Store, open_page: OpenPage) -> None:
    story = begin_step(Story(store, answered_by=AnsweredBy.LLM).begin(), store.put(KERNEL))
    rows = (
        SweepRow({"BLOCK": 256}, Status.PASSED, "", 30, 0, 1.0),
        SweepRow({"BLOCK": 512}, Status.PASSED, "", 24, 0, 1.0),
        SweepRow({"BLOCK": 2048}, Status.REJECTED, "2048 threads"),
    )
    table = store.put_record(SweepTable(rows, 1, 3))
    story.add(
        Studied(StudyKind.SWEEP, "", table, step=1),
        Proposed(1, store.put(KERNEL + "// 512\n"), Author.PLAYBOOK, "tune: BLOCK=512"),
    )
    text = shown(open_page("session", id=story.session))
    assert "Sweep · 2 of 3 tested points passed, not ranked by time" in text
    assert "★" in text
    assert "Decided by a model of the launches and by correctness; not ranked by time." in text
    assert "3 further points not tried." in text


# ---- memory


def test_standing_instructions_and_memory_are_edited(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session, step=2, pane="memory")
    standing, memory = page.text_area
    assert memory.value == "failed: race on partial"
    standing.input("Prefer cute::copy.")
    click(page, "standing-save")
    page.text_area[1].input("a barrier was missing")
    click(page, "memory-save")
    kinds = [(w.decision.kind, w.decision.step, w.decision.text) for w in store.waiting(story.session)]
    assert kinds == [
        (DecisionKind.STANDING, None, "Prefer cute::copy."),
        (DecisionKind.MEMORY, 2, "a barrier was missing"),
    ]
    assert "Step 2</b>" in shown(page)


def test_instructions_kept_in_another_tab_leave_what_is_typed_here(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session, step=2, pane="memory")
    drawn = page.text_area[0]
    drawn.input("Mine, half").run()
    for kept in ("Theirs.", "Mine, half"):
        story.add(Decided(Decision(DecisionKind.STANDING, text=kept)))
        page.run()
        assert (page.text_area[0].proto.id, page.text_area[0].value) == (drawn.proto.id, "Mine, half")
        assert ("Saved now: Theirs." in shown(page)) == (kept == "Theirs.")
    story.add(Decided(Decision(DecisionKind.STANDING, text="Theirs again.")))
    page.run()
    click(page, "standing-save-other")
    assert page.text_area[0].value == "Theirs again."
    assert "Saved now" not in shown(page)
    story.add(Decided(Decision(DecisionKind.MEMORY, step=2, text="a barrier was missing")))
    page.run()
    assert page.text_area[1].value == "failed: race on partial", "it may be typed into at this moment"
    assert "Saved now: a barrier was missing" in shown(page)


def test_spent_tokens_can_be_raised(store: Store, open_page: OpenPage) -> None:
    session = start.create(store, library.load("softmax"), answered_by=AnsweredBy.LLM, max_tokens=10_000)
    spent = StateChanged(SessionState.EXHAUSTED, "the next call may use 9,000 tokens")
    store.append(session, [StepStarted(1, None), spent], after=1)
    page = open_page("session", id=session)
    assert page.button(key="decide-budget").label == "Raise to 210,000 tokens"
    click(page, "decide-budget")
    (waiting,) = store.waiting(session)
    assert (waiting.decision.max_steps, waiting.decision.max_tokens) == (40, 210_000)


# ---- starting with a model, and setting one up


def test_without_a_model_the_start_page_says_where_to_set_one_up(store: Store) -> None:
    page = framed()
    page.selectbox(key="new-proposer-any").select("llm").run()
    assert "No language model is set up" in shown(page)
    assert page.button(key="new-start-any").disabled


def test_a_session_starts_with_model_budget_and_prompt_gate(store: Store) -> None:
    model_settings.write(Models((LOCAL,)))
    page = framed()
    page.selectbox(key="new-proposer-any").select("llm").run()
    page.number_input(key="new-tokens-any").set_value(50_000)
    page.selectbox(key="new-ideas-any").set_value(Ideas.FEW)
    page.number_input(key="new-enough-any").set_value(85)
    page.segmented_control(key="new-gates-any").set_value([Gate.PROMPT, Gate.PROMOTION])
    click(page, "new-start-any")
    settings = views.session_view(store, store.sessions()[0]).state.settings
    assert (settings.answered_by, settings.model, settings.max_tokens) == ("llm", "local", 50_000)
    assert settings.gates == (Gate.PROMPT, Gate.PROMOTION)
    assert settings.effort == Effort(Ideas.FEW, 0.85)


def field(page: AppTest, name: str) -> str:
    """Return the key of a field of the model form; it changes with the model."""
    return next(str(t.key) for t in page.text_input if str(t.key).startswith("model-") and str(t.key).endswith(name))


def test_a_model_is_added_changed_and_removed(store: Store) -> None:
    page = framed("setup")
    for name, value in {"-name": "mine", "-base_url": "http://127.0.0.1:9/v1", "-model": "qwen"}.items():
        page.text_input(key=field(page, name)).input(value)
    page.text_input(key=field(page, "-temperature")).input("0.4")
    click(page, "model-save")
    assert model_settings.read().settings == (ModelSettings("mine", "http://127.0.0.1:9/v1", "qwen", temperature=0.4),)
    page.text_input(key=field(page, "-base_url")).input("ftp://x")
    assert "Not saved: “Base URL, with version” must begin with http" in shown(click(page, "model-save"))
    click(page, "model-remove")
    assert model_settings.read().settings == ()


def test_what_is_changed_in_two_tabs_is_all_kept(store: Store) -> None:
    """In one the limits of a model and who answers; in the other its address, and another model goes."""
    model_settings.write(Models((LOCAL, replace(LOCAL, name="second"), replace(LOCAL, name="third"))))
    one, other, last = framed("setup"), framed("setup"), framed("setup")
    one.text_input(key=field(one, "-temperature")).input("0.4")
    click(one, "model-save")
    one.selectbox(key="role-repair").select("second").run()
    other.text_input(key=field(other, "-base_url")).input("http://127.0.0.1:10/v1")
    click(other, "model-save")
    last.selectbox(key="model-chosen").select("third").run()
    other.selectbox(key="model-chosen").select("second").run()
    click(last, "model-remove")
    assert model_settings.read() == Models(
        (replace(LOCAL, temperature=0.4, base_url="http://127.0.0.1:10/v1"), replace(LOCAL, name="second")),
        {Role.REPAIR: "second"},
    )


def test_what_was_typed_for_a_model_that_is_gone_is_not_lost(store: Store) -> None:
    model_settings.write(Models((LOCAL,)))
    one, other = framed("setup"), framed("setup")
    click(other, "model-remove")
    one.text_input(key=field(one, "-temperature")).input("0.4")
    assert "local was removed in the meantime" in shown(click(one, "model-save"))
    assert model_settings.read().settings == (replace(LOCAL, temperature=0.4),)


@pytest.mark.by_default(4)
@pytest.mark.parametrize("typed", ["nan", "inf", "-inf", "1e999", "9" * 400])
@pytest.mark.parametrize("name", ["-retries", "-temperature", "-total_timeout_s"])
def test_a_number_that_is_none_is_refused(store: Store, typed: str, name: str) -> None:
    model_settings.write(Models((LOCAL,)))
    page = framed("setup")
    page.text_input(key=field(page, name)).input(typed)
    assert "must be a finite number, not" in shown(click(page, "model-save"))
    assert model_settings.read().settings == (LOCAL,)


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("-base_url", "ftp://x", "“Base URL, with version” must begin with http://"),
        ("-max_output_tokens", "70000", "“Max. output tokens” must be smaller than “Context window, tokens”"),
    ],
)
def test_what_does_not_fit_is_called_as_in_the_form(store: Store, name: str, typed: str, said: str) -> None:
    model_settings.write(Models((LOCAL,)))
    page = framed("setup")
    page.text_input(key=field(page, name)).input(typed)
    assert said in shown(click(page, "model-save"))
    assert model_settings.read().settings == (LOCAL,)


def test_a_key_is_kept_for_its_owner_only_and_never_shown(store: Store, tmp_path: Path) -> None:
    model_settings.write(Models((LOCAL,)))
    page = framed("setup")
    page.text_input(key="model-key-local").input(SECRET)
    click(page, "key-save")
    file = tmp_path / "secrets.toml"
    assert SECRET in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "from " in shown(page)
    assert SECRET not in shown(page) + str(page.text_input(key="model-key-local").value)


def test_the_connection_test_tells_what_the_server_can_do(store: Store) -> None:
    with ModelServer() as server:
        model_settings.write(Models((ModelSettings("played", server.base_url, MODEL),)))
        page = click(framed("setup"), "model-test")
        wait_until(lambda: "answered in" in shown(page.run()), lambda: shown(page))
        text = shown(page)
    assert f"{MODEL} answered in" in text
    assert "other-model" in text
    assert "reports token counts" in text


def test_a_broken_models_file_is_said_and_left_alone(store: Store, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("[models.x]\nbase_url = 3\n")
    assert "models.toml" in shown(framed("setup"))
    assert (tmp_path / "models.toml").read_text() == "[models.x]\nbase_url = 3\n"


# ---- elsewhere and back


def written(store: Store) -> None:
    """Do what the engine does for the files that were asked for."""
    slots = JobSlots(store, JobKind.EXPORT, 2)
    wait_until(lambda: slots.dispatch() or all(job.is_over for job in jobs.every(store, JobKind.EXPORT)))
    slots.close()


@pytest.mark.parametrize("chosen", [pytest.param("cu", marks=pytest.mark.thorough), "jsonl"])
def test_a_file_is_asked_for_written_elsewhere_and_offered(store: Store, open_page: OpenPage, chosen: str) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    menu = page.selectbox(key="export-format")
    assert [option.partition(":")[0] for option in menu.options] == [*FORMATS]
    menu.select(chosen).run()
    text = shown(click(page, "export-make"))
    assert f"● {chosen}: starting" in text or f"● {chosen}: waits" in text
    assert not page.get("download_button")
    click(page, "export-make")
    (job,) = jobs.every(store, JobKind.EXPORT)
    written(store)
    page.run()
    assert page.get("download_button")
    assert chosen != "cu" or "ompiled" in shown(page)
    made = jobs.folder(job.id) / jobs.get(store, job.id).title
    assert made.stat().st_size > 1000
    assert not (made.parent / "partial").exists()
    made.unlink()
    assert "no longer in the workspace, which keeps files 7 days. Create it again" in shown(page.run())


@pytest.mark.thorough
def test_an_export_that_failed_says_where_and_why_and_is_tried_again_when_it_is_asked_for_again(
    store: Store, open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two, the compiler of this machine is repaired; another file is written beside the first."""
    compiler = tmp_path / "toolkit" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\necho error: no licence; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    page = open_page("session", id=softmax_story(store).session)
    for wanted in ("html", "flashinfer"):
        page.selectbox(key="export-format").select(wanted).run()
        click(page, "export-make")
    written(store)
    text = shown(page.run())
    assert "(format flashinfer): nvcc does not compile the exported kernel: error: no licence" in text
    assert len(page.get("download_button")) == 1
    compiler.write_text("#!/bin/sh\n: > kernel.o\n")
    assert "error: no licence" in shown(page.run()), "not tried at every drawing"
    click(page, "export-make")
    written(store)
    assert "no licence" not in shown(page.run())
    assert len(page.get("download_button")) == 2


def test_an_export_is_cancelled(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session)
    click(page, "export-make")
    (job,) = jobs.every(store, JobKind.EXPORT)
    text = shown(click(page, f"export-cancel-{job.id}"))
    assert "cancelled" in text
    assert jobs.get(store, job.id).state is JobState.STOPPED


def test_a_recording_opens_once_read_only_and_is_walked_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    story = softmax_story(store)
    export(store, story.session, "jsonl", folder / "softmax.jsonl.gz")
    (folder / "broken.jsonl.gz").write_bytes(b"not gzip")
    monkeypatch.setattr(imported, "RECORDINGS", folder)
    for _ in range(2):
        page = framed()
        assert "broken.jsonl.gz cannot be read" in shown(page)
        label = next(b for b in page.button if b.key == "recording-1").label.replace("\\", "")
        assert label.startswith("softmax · playbook · recorded on the emulator for sm_90a")
        click(page, "recording-1")
    opened = [s for s in store.sessions() if s != story.session]
    assert len(opened) == 1
    text = shown(page := framed("session", id=opened[0]))
    assert "read-only: imported from softmax.jsonl.gz" in text
    assert not any((b.key or "").startswith("decide-approve") for b in page.button)
    click(page, "replay")
    started = views.session_view(store, store.sessions()[0]).state.settings
    assert (started.answered_by, started.recording, started.origin) == ("recording", opened[0], "here")
    assert page.query_params["id"] == store.sessions()[0], "it is opened"


def test_a_recording_is_replayed_once_however_often_the_button_is_pressed(store: Store, tmp_path: Path) -> None:
    """Also when the next click interrupts the first one, which is then carried out again."""
    export(store, softmax_story(store).session, "jsonl", tmp_path / "softmax.jsonl.gz")
    recorded = import_path(store, tmp_path / "softmax.jsonl.gz").session
    before, started = len(store.sessions()), list[str]()
    for _ in range(2):
        imported._replay(store, recorded, started)
    assert len(store.sessions()) == before + 1
    assert started == [store.sessions()[0]]


def test_an_import_by_path_says_what_came_in_or_cannot_be_read(store: Store, tmp_path: Path) -> None:
    export(store, softmax_story(store).session, "jsonl", tmp_path / "softmax.jsonl.gz")
    page = framed()
    page.text_input(key="import-path").input(str(tmp_path / "softmax.jsonl.gz"))
    text = shown(click(page, "import-open"))
    assert 'cg-ok" role="status"><b>✓</b> <span>Imported ' in text
    (tmp_path / "x.txt").write_text("no")
    page = framed()
    page.text_input(key="import-path").input(str(tmp_path / "x.txt"))
    assert "is no recording" in shown(click(page, "import-open"))


@pytest.mark.parametrize(
    ("name", "button"), [("start", "import-open"), ("start", "start-load"), ("gnn", "gnn-import-open")]
)
@pytest.mark.usefixtures("store")
def test_a_button_for_a_path_asks_for_the_path_that_was_not_typed(name: str, button: str) -> None:
    assert "Type the path of a file or folder on this machine" in shown(click(framed(name), button))


def test_on_a_first_run_the_recorded_sessions_come_first_with_their_pictures(store: Store) -> None:
    page = framed()
    html = shown(page)
    headings = [text for text in ("Look first", "Start a new session", "System check") if text in html]
    assert headings == sorted(headings, key=html.index)
    pictures = re.findall('<img class="cg-recording" alt="(.*?)"', html)
    shipped = list(imported.RECORDINGS.glob("*.jsonl*"))
    assert len(pictures) == min(len(shipped), imported.CARDS), "each that has room has one"
    on_gpu = ["NVIDIA H200" in alt for alt in pictures]
    assert on_gpu == sorted(on_gpu, reverse=True), "those of a GPU first"
    assert sum(on_gpu) >= 2
    softmax_story(store)
    assert '<img class="cg-recording"' not in shown(framed())


def test_the_picture_of_a_recording_is_drawn_from_its_data() -> None:
    for recording in imported.RECORDINGS.glob("*.jsonl*"):
        assert imported.picture_of(recording).read_text() == recording_pictures.drawn(recording)
