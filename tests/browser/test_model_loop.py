"""CuTeGen's loop with a language model, as a person meets it: a real server plays the model, all else is real."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from tests.browser.driving import field_of, line_of, press, state_of, title_of, widget_of
from tests.model_server import Answer, ModelServer, Script, reply, silence
from tests.pages.stories import KERNEL
from tests.patience import SOON_S, wait_until
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

FIRST_EVER_MS = 240_000
TRIAL_MS = 120_000
RIGHT, WRONG = "result(c) = expf(row(c) - largest) / sum", "result(c) = expf(row(c) - largest)"
BROKEN = f"Idea: seed\nOne block a row.\n```cpp\n{KERNEL.replace(RIGHT, WRONG)}```\n"
DIAGNOSIS = "Cause: nothing is divided by the sum\nEvidence: rows do not add up to 1\nFix: divide by it"
MENDED = f"""Idea: seed
<<<<<<< SEARCH
{WRONG};
=======
{RIGHT};
>>>>>>> REPLACE
"""
Play = Callable[..., ModelServer]


@pytest.fixture
def play(server: Server) -> Iterator[Play]:
    """Serves these answers as the only model of the served workspace."""
    models = []
    file = server.home / "models.toml"

    def start(*script: Script) -> ModelServer:
        model = ModelServer(*script)
        model.__enter__()
        models.append(model)
        model_settings.write(Models((ModelSettings("played", model.base_url, "test-model"),)), file)
        return model

    yield start
    file.unlink(missing_ok=True)
    for model in models:
        model.__exit__(None, None, None)


def prompt_field(page: Page) -> Locator:
    return field_of(page, "Prompt", exact=True)


def sent(model: ModelServer, number: int) -> str:
    return str(model.asked[number].body["messages"][0]["content"])


def choose(page: Page, label: str, option: str) -> None:
    field_of(page, label, exact=True).first.click()
    page.get_by_role("option", name=re.compile(option)).click()


def start_session(page: Page, server: Server, *, wait_for_prompts: bool) -> None:
    """Start through the start page, with a language model on softmax."""
    page.goto(server.url)
    choose(page, "Proposer", "^llm")
    expect(page.get_by_text("Token budget", exact=False)).to_be_visible()
    if wait_for_prompts:
        page.get_by_role("button", name="sending a prompt").click()
    page.get_by_role("button", name="Start", exact=True).click()


def send_prompt(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Send this prompt")).click()


def slowly(text: str, size: int = 30) -> Answer:
    return reply(text, size=size, pause_s=0.06)


@pytest.mark.thorough
def test_a_prompt_is_read_edited_and_sent_and_its_answer_streams_in(server: Server, page: Page, play: Play) -> None:
    model = play(slowly(BROKEN, size=10), slowly(DIAGNOSIS), slowly(MENDED), silence("Idea: "))
    start_session(page, server, wait_for_prompts=True)

    # The prompt waits, nothing has been sent; what the person changes is what the server gets.
    expect(prompt_field(page)).to_have_value(re.compile("softmax"), timeout=FIRST_EVER_MS)
    expect(page.get_by_text("Nothing was left out", exact=False)).to_be_visible()
    assert not model.asked
    written = prompt_field(page).input_value()
    prompt_field(page).fill(f"{written}\nMy own words: keep it short, 4711.")
    prompt_field(page).blur()
    expect(page.get_by_text("edited by you", exact=False)).to_be_visible()
    send_prompt(page)

    # The text is there before the answer is over, and grows.
    stream = page.locator(".st-key-stream-pane")
    expect(stream).to_contain_text("One block a row.")
    expect(stream).not_to_contain_text(WRONG)
    first = len(stream.inner_text())
    wait_until(lambda: len(stream.inner_text()) > first, "the text does not grow")
    page.reload()  # what has come is there again, and goes on
    expect(stream).to_contain_text("One block a row.")
    assert sent(model, 0) == f"{written}\nMy own words: keep it short, 4711."

    # Wrong numbers; their diagnosis stands beside it before the repair is written.
    expect(page.get_by_text("Review, then compile", exact=False)).to_be_visible()
    press(page, "Approve the diff")
    expect(page.get_by_text("Review the verdict", exact=False)).to_be_visible(timeout=FIRST_EVER_MS)
    error = page.locator(".cg-note.cg-error")
    expect(error).to_contain_text("are wrong")
    press(page, "Continue and repair")
    expect(prompt_field(page)).to_have_value(re.compile("are wrong"))
    send_prompt(page)
    expect(prompt_field(page)).to_have_value(re.compile("nothing is divided by the sum"))
    expect(page.locator(".cg-diagnosis")).to_contain_text("Fix: divide by it")
    expect(error).to_contain_text("are wrong")
    send_prompt(page)
    expect(page.get_by_text("Review, then compile", exact=False)).to_be_visible()
    press(page, "Approve the diff")
    expect(page.get_by_text("runs correct on")).to_be_visible(timeout=TRIAL_MS)

    # The failed step keeps its diagnosis, the repair its prompts and replies.
    title = title_of(page)
    page.get_by_role("link", name=re.compile("^Step 1:")).click()
    expect(title).to_contain_text("Step 1")
    expect(page.locator(".cg-diagnosis")).to_contain_text("Diagnosis of step 1 by test-model")
    page.get_by_role("link", name=re.compile("^Step 2: .*seed.*passed")).click()
    expect(title).to_contain_text("Step 2")
    widget_of(page, "radio", "prompt").click()
    expect(page.get_by_text("1 · diagnosis · test-model", exact=False)).to_be_visible()
    expect(page.get_by_text("2 · repair · test-model", exact=False)).to_be_visible()

    # Redirected: the instruction stands in the next prompt.
    field = line_of(page)
    field.fill("use warp shuffles instead of shared memory, ticket 0815")
    press(page, "Redirect")
    expect(prompt_field(page)).to_have_value(re.compile("ticket 0815"))
    send_prompt(page)
    expect(page.locator(".st-key-stream-pane")).to_contain_text("Idea:")
    assert "ticket 0815" in sent(model, 3)
    press(page, "Stop")
    expect(state_of(page)).to_contain_text("stopped")


def test_a_call_is_cancelled_at_once(server: Server, page: Page, play: Play) -> None:
    model = play(silence("Idea: let me think about tiles"))
    start_session(page, server, wait_for_prompts=False)
    expect(page.locator(".st-key-stream-pane")).to_contain_text("think about tiles", timeout=FIRST_EVER_MS)
    page.locator(".cg-rail").click()
    page.keyboard.press("s")
    assert model.asked[0].closed_early.wait(SOON_S)  # by itself it would be given up later
    expect(state_of(page)).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Resume")).to_be_enabled()
    assert len(model.asked) == 1
