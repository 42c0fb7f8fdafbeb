"""The centre of the session page: the change first, never empty, and the reference one key away."""

from __future__ import annotations

import pytest

from cutegen_core.kernel import hunks
from cutegen_core.problems import library
from cutegen_core.records.candidate import Author
from cutegen_core.records.decision import Decision, DecisionKind, Gate
from cutegen_core.records.event import Decided, Outcome, SessionState, StateChanged, StepStarted, TrialStarted
from cutegen_core.session import start
from cutegen_core.trajectory.state import Step
from cutegen_core.trajectory.store import Draft, Store, edit_name
from cutegen_core.views import StepView
from pages.components import PAGES
from tests.later import Later
from tests.pages.conftest import OpenPage, button_of, drawn_until, shown
from tests.pages.stories import KERNEL, ONE_PASS, TYPO, VECTORS, Story, not_compiled, passed
from tests.patience import PATIENCE_S

testing = Later("streamlit.testing.v1")
editor = Later("pages.components.editor.editor")
drafts = Later("pages.components.editor.drafts")
shape_list = Later("pages.components.editor.shapes")


def seeded(store: Store) -> Story:
    """Return a session whose seed is promoted."""
    story = Story(store).begin(held=True)
    seed = story.propose(KERNEL, "one block a row, three passes", plan="The simplest correct kernel.")
    return story.test(passed(store, seed)).promote(seed)


def at_the_diff_gate(store: Store) -> Story:
    story = seeded(store)
    return story.gate(Gate.DIFF, story.propose(VECTORS, "one pass, 128-bit loads")).publish()


def test_before_a_test_the_change_has_the_width_and_what_is_known_is_a_click_away(
    store: Store, open_page: OpenPage
) -> None:
    page = open_page("session", id=at_the_diff_gate(store).session)
    text = shown(page)
    assert "cg-split" in text, "side by side"
    assert "launch plan (hunk 1)" in text
    assert f"· {len(hunks.split(KERNEL, VECTORS))} hunks" in text
    assert not page.get("plotly_chart")
    assert not [one for one in page.segmented_control if str(one.key).startswith("pane-")]
    page.button(key="panes-open").click().run()
    assert "cg-split" not in shown(page)
    assert [one for one in page.segmented_control if str(one.key).startswith("pane-")]
    page.button(key="panes-close").click().run()
    assert "cg-split" in shown(page)


def test_an_accepted_result_is_compared_with_the_seed_not_with_a_broken_parent(
    store: Store, open_page: OpenPage
) -> None:
    story = seeded(store)
    story.base = typo = story.propose(TYPO, "a typo", author=Author.PERSON)
    story.test(not_compiled(typo)).close(Outcome.FAILED, "line 40")
    good = story.propose(VECTORS, "mended")
    story.test(passed(store, good)).promote(good)
    open_page_of = story.add(StateChanged(SessionState.AWAITING_REVIEW)).publish()
    page = open_page("session", id=open_page_of.session, step=3)
    assert page.selectbox(key=f"against-{story.session}-3").value == "parent"
    story.add(Decided(Decision(DecisionKind.ACCEPT, story.seq, candidate=good)), StateChanged(SessionState.ACCEPTED))
    page = open_page("session", id=story.session)
    chosen = page.selectbox(key=f"against-{story.session}-3")
    assert chosen.value == "seed"
    assert chosen.options[0] == "seed (step 1)"


def test_the_best_kernel_stays_while_there_is_no_other(store: Store, open_page: OpenPage) -> None:
    story = seeded(store)
    story.add(StepStarted(2, story.base)).gate(Gate.INSTRUCTION, None, "what next?").publish()
    text = shown(open_page("session", id=story.session))
    assert "the proposer needs an instruction" in text
    assert "Best so far: step 1 · one block a row, three passes" in text
    assert "block_reduce" in text
    assert "launch plan, 16 lines: softmax, grid rows, block 256" in text


@pytest.mark.parametrize(
    ("state", "way_on"),
    [
        (SessionState.STOPPED, "the session is stopped. Resume, or decide below, to go on."),
        (SessionState.INTERRUPTED, "the session is interrupted. Resume, or decide below, to go on."),
        (SessionState.EXHAUSTED, "the session is exhausted. Raise the budget to go on."),
    ],
)
def test_where_nothing_runs_no_part_of_the_page_says_that_a_kernel_is_coming(
    store: Store, open_page: OpenPage, state: SessionState, way_on: str
) -> None:
    story = seeded(store)
    story.add(StepStarted(2, story.base)).gate(Gate.INSTRUCTION, None, "what next?")
    text = shown(open_page("session", id=story.add(StateChanged(state, "the reason")).publish().session))
    assert f"No kernel: {way_on}" in text
    assert "waiting" not in text
    tested = seeded(store)
    candidate = tested.propose(ONE_PASS, "one pass")
    tested.add(TrialStarted(2, candidate), StateChanged(state, "it ended"))
    text = shown(open_page("session", id=tested.publish().session))
    assert "Not tested" in text
    assert "Testing" not in text


def test_the_reference_is_one_key_away_as_its_file_has_it(store: Store, open_page: OpenPage) -> None:
    page = open_page("session", id=at_the_diff_gate(store).session)
    assert "PyTorch reference" not in shown(page)
    assert page.button(key="reference").proto.shortcut.upper() == "Y"
    page.button(key="reference").click().run()
    text = shown(page)
    assert "PyTorch reference · built-in" in text
    assert "cg-add" in text, "the kernel stays beside it"
    source = next(p for p in library.catalogue() if p.name == "softmax").source
    assert text.count('class="cg-ln" id=') >= len(source.splitlines())
    page.button(key="reference").click().run()
    assert "PyTorch reference" not in shown(page)


def test_without_any_kernel_the_reference_is_there(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin(held=True)
    story.steps = 1
    story.add(StepStarted(1, None)).gate(Gate.INSTRUCTION, None, "not in the playbook").publish()
    text = shown(open_page("session", id=story.session))
    assert "PyTorch reference" in text
    assert "Skeleton with the right signature" in text


def test_a_first_kernels_draft_is_changed_once_somebody_types(store: Store, open_page: OpenPage) -> None:
    story = Story(store).begin(held=True)
    story.steps = 1
    story.add(StepStarted(1, None)).gate(Gate.INSTRUCTION, None, "not in the playbook").publish()
    page = open_page("session", id=story.session)
    shape_list.shapes(library.load("softmax")).result()
    button_of(page, "decide-edit").click().run()
    begun = store.draft(edit_name(story.session, ""))
    assert begun is not None
    assert "softmax" in begun.text
    assert not drafts.is_changed(store, story.session, begun)
    assert drafts.is_changed(store, story.session, Draft("", begun.text + "\n"))


def test_a_branch_goes_on_from_where_a_rewind_led(store: Store, open_page: OpenPage) -> None:
    story = seeded(store)
    other = story.propose(ONE_PASS, "one pass")
    story.test(passed(store, other)).promote(other)
    story.add(Decided(Decision(DecisionKind.REWIND, story.seq, step=1)))
    story.steps = 3
    seed = store.put(KERNEL)
    story.add(StepStarted(3, seed)).gate(Gate.INSTRUCTION, None, "all kernels were tried").publish()
    page = open_page("session", id=story.session)
    button = button_of(page, "decide-branch")
    assert (button.label, button.disabled) == ("Branch 1", False)
    # What is shown is what Edit & run opens: the kernel that the step continues from.
    assert "step 1 · one block a row, three passes" in shown(page)
    assert "step 2 · one pass" not in shown(page)
    assert "Editing step 1: one block a row" in shown(button_of(page, "decide-edit").click().run())


def test_while_an_acceptance_is_tested_its_kernel_is_shown(store: Store, open_page: OpenPage) -> None:
    story = seeded(store)
    story.add(StepStarted(2, story.base)).gate(Gate.INSTRUCTION, None, "all kernels were tried")
    story.add(Decided(Decision(DecisionKind.ACCEPT, story.seq, candidate=store.put(KERNEL))))
    story.add(TrialStarted(1, store.put(KERNEL), acceptance=True)).publish()
    text = shown(open_page("session", id=story.session))
    assert "Step 1</b> one block a row" in text
    assert "being accepted: tested once more, with fresh inputs" in text
    assert "Step 1 is tested once more" in text


def test_the_editor_opens_where_the_change_is_in_view() -> None:
    plan = KERNEL.replace('idea = "', 'idea = "faster, ', 1)
    code = plan.replace("float sum", "double sum", 1)
    line = next(n for n, text in enumerate(code.splitlines(), 1) if "double sum" in text)

    def opened(now: str) -> int:
        return editor._first_line(StepView(Step(2, None), now, KERNEL, "", (), None))

    assert opened(code) == line, "not at the idea, which is folded"
    assert 1 < opened(plan) < line, "where only the plan has changed, there"
    assert "__global__" in KERNEL.splitlines()[opened(KERNEL) - 1]


def test_headings_are_shown_as_they_are() -> None:
    """In capitals an expression would be another: a heading may hold a kernel's name, or what an edit changed."""
    assert "uppercase" not in (PAGES / "components" / "shared" / "page.css").read_text()


def test_a_hand_edit_is_named_by_what_it_changed(store: Store) -> None:
    story = seeded(store).publish()
    edit = Decision(
        DecisionKind.EDIT, story.seq, source=KERNEL.replace("c < cols", "c <= cols", 1), candidate=store.put(KERNEL)
    )
    start.submit(store, story.session, edit)
    (waiting,) = store.waiting()
    assert waiting.decision.text == "c < cols → c <= cols, line 38"


def ask_about_a_scan() -> None:
    """Play a page that is about to start a session on a problem of one's own."""
    from dataclasses import replace

    from cutegen_core.records.event import AnsweredBy
    from pages.components.problems.who_proposes import render_who_proposes
    from tests.few_runs import few_runs

    relu = few_runs("relu")
    source = relu.source.replace("torch.relu(x)", "torch.mode(x, dim=0)[0]")
    render_who_proposes(replace(relu, source=source, origin="/tmp/scan.py"), AnsweredBy.PLAYBOOK)


def test_who_could_propose_is_said_before_a_session_begins() -> None:
    page = testing.AppTest.from_function(ask_about_a_scan, default_timeout=PATIENCE_S).run()
    drawn_until(page, lambda: "Asking the playbook" not in shown(page))
    assert not page.exception
    text = shown(page)
    assert "The playbook does not know this problem: no rule for aten.mode (line 24)." in text
    assert "any model by copy and paste" in text
