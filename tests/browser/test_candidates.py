"""Several candidates a step, as a person meets them: a real server plays the model, compiler and emulator are real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.propose.llm import model_settings
from cutegen_core.propose.llm.model_settings import Models, ModelSettings
from cutegen_core.records.trial import Status
from cutegen_core.trajectory.read import state_of
from cutegen_core.trajectory.store import Store
from tests.browser.driving import field_of, press
from tests.model_server import ModelServer, reply
from tests.places import DATA
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]

FIRST_EVER_MS = 240_000
RELU = (DATA / "relu.cu").read_text()
RIGHT = "in(i) > 0.0f || isnan(in(i)) ? in(i) : 0.0f"
SEVERAL = (
    ("a wrong one", RELU.replace(RIGHT, "in(i)")),
    ("128 threads", RELU.replace("default = 256", "default = 128")),
    ("a file that does not compile", RELU.replace("long i = ", "long j = ")),
)


@pytest.fixture
def model(server: Server) -> Iterator[ModelServer]:
    file = server.home / "models.toml"
    texts = [f"Idea: {idea}\nEffect: none\nRisk: none\n```cpp\n{source}```\n" for idea, source in SEVERAL]
    with ModelServer(*(reply(text, size=400) for text in texts)) as played:
        prices = {"price_in_per_million": 2.0, "price_out_per_million": 8.0}
        model_settings.write(Models((ModelSettings("played", played.base_url, "test-model", **prices),)), file)
        yield played
    file.unlink()


def test_candidates_are_compared_read_and_another_one_is_chosen(
    server: Server, page: Page, model: ModelServer, store: Store
) -> None:
    page.goto(f"{server.url}/?problem=relu&proposer=llm")
    page.get_by_text("Candidates a step, budgets", exact=False).click()
    field_of(page, "Candidates a step", exact=True).fill("3")
    field_of(page, "Minutes (0: no limit)").fill("30")
    field_of(page, "Money (0: no limit)").fill("2.5")
    field_of(page, "Money (0: no limit)").press("Enter")
    page.get_by_role("button", name="Start", exact=True).click()

    # All three were really tried; the right one waits at the gate, with the others beside it.
    expect(page.get_by_text("Review, then compile", exact=False)).to_be_visible(timeout=FIRST_EVER_MS)
    pane = page.locator(".st-key-evidence-body")
    expect(pane).to_contain_text("1 of 3 passed")
    rows = pane.locator("table").first.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("incorrect numerical")
    expect(rows.nth(1)).to_contain_text(re.compile("2 · kept.*128 threads.*passed.*estimate"))
    expect(rows.nth(2)).to_contain_text("compile error")
    assert len(model.asked) == 3
    header = page.locator(".cg-header")
    expect(header).to_contain_text(re.compile(r"money 0\.\d+ of 2\.5"))
    expect(header).to_contain_text(re.compile(r"worked \d+\.\d of 30 min"))

    # The code of another one, and the step goes on with it.
    expect(pane).to_contain_text("are wrong")
    expect(pane.locator(".st-key-candidate-code")).to_contain_text("result(i) = in(i);")
    press(page, "Go on with candidate 1")
    expect(page.get_by_text("Review the verdict", exact=False)).to_be_visible(timeout=FIRST_EVER_MS)
    expect(page.locator(".cg-step-title")).to_contain_text("a wrong one")
    step = state_of(store, parse_qs(urlsplit(page.url).query)["id"][0]).steps[0]
    assert (step.candidate, step.tried and step.tried.status) == (
        step.alternatives[0].candidate,
        Status.INCORRECT_NUMERICAL,
    )
