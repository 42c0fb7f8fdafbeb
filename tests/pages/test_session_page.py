"""The session page over stored sessions: what it shows, what its buttons submit, and that markup stays text."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.records.errors import StaleDecisionError
from cutegen_core.records.event import (
    AnsweredBy,
    GateOpened,
    Outcome,
    SessionState,
    StageEnded,
    StageStarted,
    StateChanged,
    StepStarted,
    TrialStarted,
)
from cutegen_core.records.trial import Stage, StageResult, StageStatus
from cutegen_core.session import decisions
from cutegen_core.trajectory.store import Draft, Store
from cutegen_core.trajectory.transitions import fold
from tests.later import Later
from tests.pages.conftest import OpenPage, button_of, draft_of, drawn_until, framed, line_of, shown, step_rows
from tests.pages.gpu_stories import gpu_story
from tests.pages.stories import HOSTILE, KERNEL, ONE_PASS, VECTORS, Story, hostile_story, softmax_story

keys, code_pane = Later("pages.components.session.keys"), Later("pages.components.shared.code_pane")

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


@pytest.fixture
def inbox_reader(store: Store) -> Iterator[None]:
    """The engine's side of the inbox and nothing else of it: decisions are taken or refused by the real rules."""
    stop = threading.Event()
    reader = threading.Thread(target=_read_inbox, args=(store, stop))
    reader.start()
    yield
    stop.set()
    reader.join()


def _read_inbox(store: Store, stop: threading.Event) -> None:
    while not stop.is_set():
        for waiting in store.waiting():
            state = fold(store.events(waiting.session))
            try:
                decisions.check(state, waiting.decision)
            except StaleDecisionError as refusal:
                store.refuse(waiting.id, str(refusal))
                continue
            events = decisions.consequences(state, waiting.decision, store.put)
            store.append(waiting.session, events, after=state.seq, taking=waiting.id)
        time.sleep(0.01)


def _decisions(store: Store, story: Story) -> list[Decision]:
    return [d.event.decision for d in store.events(story.session) if d.event.kind == "decided"][4:]


def _click(page: AppTest, key: str) -> AppTest:
    button_of(page, key).click().run()
    assert not page.exception, [e.value for e in page.exception]
    return page


def test_header_rail_timeline_and_evidence_of_the_open_step(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session)
    text = shown(page)
    assert "awaiting review" in text
    assert "<i>runs on</i> emulator" in text
    assert "Step 5</b> one pass, 128-bit loads" in text
    assert "✗ TEST</b> <i>failed 0.90 s" in text
    assert "first at [0, 1018]: got nan, want 0.00021" in text
    assert "only the last 3 columns" in text
    assert "seed" in text
    assert "7341" in text
    rows = step_rows(page)
    assert [rows[4][name] for name in ("idea", "shape", "verdict", "mark")] == [
        "higher → higer, line 43", "failed", "compile error", "✎",
    ]  # fmt: skip
    assert (rows[3]["star"], rows[3]["parent"], rows[3]["verdict"]) == ("★", 1, "promoted")


def test_runs_are_a_matrix_and_a_failing_one_is_open(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    text = shown(open_page("session", id=story.session, step=3, pane="correctness"))
    assert "15 of 15 runs correct" in text
    for kind in ("instrumented", "forward", "reverse"):
        assert f'<th scope="col" class="cg-n">{kind}</th>' in text
    assert text.count('">✓</span>') == 15
    text = shown(open_page("session", id=story.session, step=5, pane="correctness"))
    assert "4 of 5 runs correct" in text
    assert "✗ incorrect numerical</span>" in text
    assert "812x" in text
    assert text.index("only the last 3 columns") < text.index("4 of 5 runs correct"), "what is wrong comes first"


def test_deep_link_to_step_and_pane(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    text = shown(open_page("session", id=story.session, step=2))
    assert "race" in text
    assert "partial" in text
    assert "(32, 0, 0)" in text
    text = shown(open_page("session", id=story.session, step=4, pane="log"))
    assert "identifier &quot;higher&quot; is undefined" in text
    assert "2 notes" in text
    text = shown(open_page("session", id=story.session, step=3, pane="resources"))
    assert "Occupancy, theoretical" in text
    assert "▲ +6" in text


@pytest.mark.parametrize(("view", "wanted"), [("source", "cg-code"), ("inline", "cg-add"), ("split", "cg-split")])
def test_pictures_of_the_source(store: Store, open_page: OpenPage, view: str, wanted: str) -> None:
    assert wanted in shown(open_page("session", id=softmax_story(store).session, step=3, view=view))


def test_an_error_is_marked_at_its_line_also_in_a_diff(store: Store, open_page: OpenPage) -> None:
    text = shown(open_page("session", id=softmax_story(store).session, step=2, view="inline"))
    assert "race (checker): read of `partial`" in text


def test_latency_says_that_it_needs_a_gpu(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    page.segmented_control(key=f"metric-{story.session}").set_value("latency").run()
    assert "needs a GPU" in str(page.get("plotly_chart")[0].proto)


def test_approve_is_bound_to_what_was_shown(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    seen = fold(store.events(story.session)).meaning_seq
    _click(page, "decide-approve")
    decision = _decisions(store, story)[-1]
    assert (decision.kind, decision.gate, decision.seen) == (DecisionKind.APPROVE, Gate.PROMOTION, seen)
    assert decision.candidate == store.put(VECTORS)
    assert button_of(page, "decide-approve").disabled


def test_approve_is_off_while_another_step_is_shown(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session, step=2)
    assert button_of(page, "decide-approve").disabled
    _click(page, "show-open-step")
    assert not button_of(page, "decide-approve").disabled


def test_a_stale_click_is_refused_and_nothing_is_lost(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    line_of(page, story.session).input("predicate the tail")
    story.add(GateOpened(story.steps, Gate.PROMOTION, store.put(VECTORS)))  # somebody else was quicker
    _click(page, "decide-redirect")
    assert "The session has moved on since this was shown" in shown(page)
    assert line_of(page, story.session).value == "predicate the tail"
    _click(page, "decide-redirect")
    assert _decisions(store, story)[-1].text == "predicate the tail"
    assert line_of(page, story.session).value == ""


def test_redirect_and_reject_ask_for_words(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=softmax_story(store).session)
    assert "Type a reason" in shown(_click(page, "decide-reject"))
    assert not store.waiting()


def test_chips_come_from_the_evidence(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session)
    chips = [b.label.replace("\\", "") for b in page.button if b.key and b.key.startswith("chip-")]
    assert "only the last 3 columns: fix it" in chips
    assert any(chip.startswith("spills 56 B") for chip in chips)
    _click(page, "chip-0")
    assert line_of(page, story.session).value == chips[0]


def test_chips_of_a_playbook_session_are_its_other_kernels(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin()
    key = story.propose(
        KERNEL, "one thread, one row", plan="naive: one thread, one row.\nMenu: naive -> shuffle -> tuned.\nCuTe"
    )
    story.gate(Gate.DIFF, key)
    page = open_page("session", id=story.session)
    assert [b.label for b in page.button if b.key and b.key.startswith("chip-")] == ["shuffle", "tuned"]


def test_edit_keeps_a_draft_until_the_engine_took_it(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = softmax_story(store)
    page = _click(open_page("session", id=story.session, step=3), "decide-edit")
    page.text_area[0].input(ONE_PASS + "// mine\n").run()
    assert draft_of(store, story.session) == Draft(store.put(ONE_PASS), ONE_PASS + "// mine\n")
    assert "stale" in shown(page)
    reloaded = open_page("session", id=story.session, step=3)
    assert reloaded.text_area[0].value == ONE_PASS + "// mine\n"
    _click(page, "edit-run")
    decision = _decisions(store, story)[-1]
    assert (decision.kind, decision.candidate) == (DecisionKind.EDIT, store.put(ONE_PASS))
    assert store.text(decision.source or "") == ONE_PASS + "// mine\n"
    assert draft_of(store, story.session) is None
    assert not page.text_area


def test_a_draft_survives_when_no_engine_answers(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = _click(open_page("session", id=story.session), "decide-edit")
    page.text_area[0].input(KERNEL + "// mine\n").run()
    _click(page, "edit-run")
    assert "waiting for the engine to take your decision" in shown(page)
    assert page.text_area[0].value == KERNEL + "// mine\n"


def test_rewind_accept_stop_and_autonomy(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = softmax_story(store)
    page = open_page("session", id=story.session, step=1)
    assert button_of(page, "decide-rewind").label == "Rewind to 1"
    assert button_of(page, "decide-accept").label == "Accept 1"
    page.selectbox(key=f"autonomy-{story.session}").select("auto").run()
    _click(page, "decide-stop")
    assert "stopped" in shown(page)
    _click(page, "decide-rewind")
    kinds = [d.kind for d in _decisions(store, story)]
    assert kinds == [DecisionKind.AUTONOMY, DecisionKind.STOP, DecisionKind.REWIND]
    assert fold(store.events(story.session)).base == store.put(KERNEL)


def test_an_exhausted_session_offers_a_larger_budget(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = softmax_story(store)
    story.close(Outcome.FAILED).add(StateChanged(SessionState.EXHAUSTED, "the budget of 40 steps is used up"))
    page = open_page("session", id=story.session)
    assert "the budget of 40 steps is used up" in shown(page)
    assert "Raise the budget to go on." in shown(page), "the bar says what to do, not why once more"
    _click(page, "decide-budget")
    assert fold(store.events(story.session)).max_steps == 60


def test_reply_gate_shows_the_prompt_and_takes_the_reply(store: Store, open_page: OpenPage, inbox_reader: None) -> None:
    story = Story(store, answered_by=AnsweredBy.PERSON).begin()
    prompt = store.put("Write one CuTe kernel. **bold**")
    story.add(StepStarted(1, None), GateOpened(1, Gate.REPLY, note="paste the model's reply", prompt=prompt))
    page = open_page("session", id=story.session)
    assert page.code[0].value == "Write one CuTe kernel. **bold**"
    page.text_area[0].input("```cpp\n" + KERNEL + "```")
    waiting = len(store.events(story.session))
    _click(page, "reply-read")
    decided = store.events(story.session)[waiting].event.decision
    assert (decided.kind, decided.gate) == (DecisionKind.REPLY, Gate.REPLY)
    assert KERNEL in decided.text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"id": "nope"}, "there is no session nope"),
        ({}, "No session selected"),
        ({"id": "<b>x</b>"}, "there is no session &lt;b&gt;x&lt;/b&gt;"),
    ],
)
def test_unknown_addresses_say_so_and_lead_home(store: Store, query: dict[str, str], message: str) -> None:
    page = framed("session", **query)
    assert message in shown(page)
    assert page.get("page_link")


@pytest.mark.by_default(1)
@pytest.mark.parametrize("step", ["99", "x", "-1"])
def test_an_unknown_step_says_so(store: Store, open_page: OpenPage, step: str) -> None:
    assert f"has no step “{step}”" in shown(open_page("session", id=softmax_story(store).session, step=step))


def test_markup_from_outside_is_text_everywhere(store: Store, open_page: OpenPage) -> None:
    story = hostile_story(store)
    for step in (1, 2):
        for pane in ("log", "correctness", "resources", "prompt"):
            page = open_page("session", id=story.session, step=step, pane=pane)
            assert "<img" not in shown(page)
            assert not any("<img" in m.value or ":red[" in m.value for m in page.markdown)
            for button in page.button:
                assert "[link](" not in button.label, button.label
    assert HOSTILE[:4] in store.text(store.put(HOSTILE))


def test_running_stages_say_what_they_do(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin()
    key = story.propose(KERNEL, "one block a row")
    story.gate(Gate.DIFF, key).approve(Gate.DIFF, key)
    patched = StageResult(Stage.PATCH, StageStatus.PASSED, 0.01)
    story.add(
        TrialStarted(1, key), StageStarted(1, Stage.PATCH), StageEnded(1, patched), StageStarted(1, Stage.COMPILE)
    )
    store.set_live(story.session, "   0.1 s  NVRTC <b>\n   0.4 s  the emulator's build")
    text = shown(open_page("session", id=story.session))
    assert "● COMPILE</b> <i>running" in text
    assert "✓ patch passed 0.01 s\n● compile\n   0.1 s  NVRTC &lt;b&gt;\n   0.4 s  the emulator&#x27;s build" in text
    assert '<span class="cg-live">0.4 s  the emulator&#x27;s build</span>' in text


def test_every_key_of_the_page_is_in_the_list(store: Store, open_page: OpenPage) -> None:
    page = _click(open_page("session", id=gpu_story(store).session, pane="profile", view="hunks"), "keys")
    listed = " ".join(key for key, _ in keys.KEYS)
    assert {code_pane.NEXT, code_pane.PREVIOUS, code_pane.UNFOLD} <= set(listed.split())
    used = {button.proto.shortcut for button in page.button if button.proto.shortcut}
    assert {"A", "E", "K", "W", "F", "S", "P", "H", "1"} <= {key.upper() for key in used}
    assert all(key.upper() in listed.upper().split() or key.isdecimal() for key in used)
    assert "keep or drop a hunk" in shown(page)


def test_the_launch_plan_is_edited_as_a_form_and_as_text(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = _click(open_page("session", id=story.session, step=3), "decide-edit")
    form = f"plan-{story.session}-0-"
    assert (page.text_input(key=f"{form}grid").value, page.text_input(key=f"{form}block").value) == ("rows", "BLOCK")
    page.text_input(key=f"{form}grid").input("ceil_div(rows, 2), min(cols, 4)").run()
    page.selectbox(key=f"plan-param-{story.session}-BLOCK").select(512).run()
    text = page.text_area[0].value
    assert 'grid   = ["ceil_div(rows, 2)", "min(cols, 4)"]' in text
    assert "BLOCK = { default = 512, values = [128, 256, 512] }" in text
    assert draft_of(store, story.session) == Draft(store.put(ONE_PASS), text)
    page.text_area[0].input(text.replace('block  = ["BLOCK"]', 'block  = ["BLOCK // 2"]')).run()
    assert page.text_input(key=f"{form}block").value == "BLOCK // 2"
    page.text_input(key=f"{form}block").input("BLOCK +").run()
    assert "✗ not applied" in shown(page)
    assert page.text_input(key=f"{form}block").value == "BLOCK +"
    assert 'block  = ["BLOCK // 2"]' in page.text_area[0].value
    page.text_input(key=f"{form}grid").input("rows").run()
    assert "not written" not in shown(page)
    assert page.text_input(key=f"{form}block").value == "BLOCK // 2"
    page.text_area[0].input("no plan at all").run()
    assert "The plan cannot be read: line 1" in shown(page)


def test_the_form_says_what_the_draft_comes_to_and_what_it_was(store: Store, open_page: OpenPage) -> None:
    story = softmax_story(store)
    page = _click(open_page("session", id=story.session, step=3), "decide-edit")
    drawn_until(page, lambda: "Getting the workload shapes" not in shown(page))
    assert "30 registers and 1056 B of static shared memory as last compiled" in shown(page)
    assert "3.88 waves · 100 % (threads)" in page.expander[0].label.replace("\\", "")
    page.selectbox(key=f"plan-param-{story.session}-BLOCK").select(512).run()
    numbers = next(str(html.value) for html in page.html if "limited by" in str(html.value))
    assert '512 <span class="cg-was">was 256</span>' in numbers
    assert '4 <span class="cg-was">was 8</span>' in numbers
    form = f"plan-{story.session}-0-"
    page.text_input(key=f"{form}smem").input("48 * 1024").run()
    assert 'smem = "48 * 1024"\nargs' in page.text_area[0].value
    numbers = next(str(html.value) for html in page.html if "limited by" in str(html.value))
    assert '50208 <span class="cg-was">was 1056</span>' in numbers
    assert "(threads)" in page.expander[0].label.replace("\\", "")
    page.text_input(key=f"{form}smem").input("64 * 1024").run()
    assert "(shared memory)" in page.expander[0].label.replace("\\", "")
    page.text_input(key=f"{form}block").input("BLOCK * 4").run()
    text = shown(page)
    assert "block (2048, 1, 1) has 2048 threads; the limit is 1024" in text
    assert text.count('class="cg-field-error"') == 1
    assert "✗ cannot be launched" in page.expander[0].label.replace("\\", "")
    page.text_input(key=f"{form}block").input("rows").run()
    assert "✗ benchmark: line 14: softmax: block (4096, 1, 1) has 4096 threads" in shown(page)
    page.text_input(key=f"{form}block").input("colz").run()
    assert "✗ line 14: block: unknown name &#x27;colz&#x27;" in shown(page)


def test_a_kernel_that_is_launched_again_is_counted_and_compared_by_its_number(
    store: Store, open_page: OpenPage
) -> None:
    story = softmax_story(store)
    page = _click(open_page("session", id=story.session, step=3), "decide-edit")
    drawn_until(page, lambda: "Getting the workload shapes" not in shown(page))
    text = page.text_area[0].value
    launch = text[text.index("[[launch]]") : text.index("*/")]
    other = launch.replace('grid   = ["rows"]', 'grid   = ["2 * rows"]')
    page.text_area[0].input(text.replace(launch, f"{launch}\n{other}\n{other}")).run()
    label = page.expander[0].label.replace("\\", "")
    assert label.startswith("Launch plan · 3 launches: softmax x3 · 7.76 waves"), label
    numbers = next(str(html.value) for html in page.html if "limited by" in str(html.value))
    assert "benchmark, 2 launches" in numbers
    assert "8192</td>" in numbers
    assert "was 4096" not in numbers, "the launches that were added were never tested"
