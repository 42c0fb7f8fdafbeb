"""The served application: who may reach it, cold deep links, two tabs, keys, links and typing, text that stays text."""

from __future__ import annotations

import http.client
import re

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.trajectory.store import Store
from tests.browser.driving import field_of, line_of, shortcut, state_of, title_of
from tests.pages.gpu_stories import gpu_story
from tests.pages.stories import hostile_story
from tests.patience import PATIENCE_S
from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def status_of(server: Server, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse().status


UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8501"])
def test_a_foreign_host_is_refused_before_anything_else(server: Server, host: str) -> None:
    assert status_of(server, "/", Host=host) == 400
    assert status_of(server, "/_stcore/health", Host=host) == 400
    assert status_of(server, "/_stcore/stream", Host=host, **UPGRADE) in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_let_in(server: Server, host: str) -> None:
    assert status_of(server, "/_stcore/health", Host=f"{host}:{server.port}") == 200
    assert status_of(server, "/_stcore/stream", Host=f"{host}:{server.port}", **UPGRADE) == 101


def test_a_foreign_origin_gets_no_websocket(server: Server) -> None:
    host = f"127.0.0.1:{server.port}"
    assert status_of(server, "/_stcore/stream", Host=host, Origin="http://evil.example", **UPGRADE) == 403


@pytest.mark.thorough
def test_text_from_outside_stays_text(server: Server, store: Store, page: Page) -> None:
    story = hostile_story(store)
    for query in ("step=1&pane=log", "step=2&pane=correctness", "step=2&view=split&pane=resources"):
        page.goto(f"{server.url}/session?id={story.session}&{query}")
        expect(title_of(page)).to_contain_text("<img src=x onerror")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        assert page.locator("[data-testid=stMain] img[src=x]").count() == 0
        assert page.locator("a[href^=javascript]").count() == 0
    page.goto(f"{server.url}/compare?a={story.session}.1&b={story.session}.2")
    expect(page.get_by_text("lines added", exact=False)).to_be_visible()
    page.goto(server.url)
    expect(page.get_by_text("Continue a session", exact=False)).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert page.title() != "owned"


def test_letters_hunks_by_key_and_hot_lines_by_link(server: Server, store: Store, page: Page) -> None:
    story = gpu_story(store)
    page.goto(f"{server.url}/session?id={story.session}&step=5&pane=profile")
    expect(page.get_by_role("button", name="Keep hunks")).to_be_enabled()
    # Letters that are typed into a field are letters.
    field = line_of(page)
    field.click()
    field.press_sequentially("sad exw f")
    page.wait_for_timeout(1000)
    expect(field).to_have_value("sad exw f")
    expect(state_of(page)).to_contain_text("awaiting review")
    assert not field_of(page, "Kernel source").count()
    assert not store.waiting(story.session)
    # Hot lines by link, hunks by key.
    link = page.get_by_role("link", name="48", exact=True)
    link.click()
    expect(page.locator("#L48")).to_be_in_viewport()
    shortcut(page, "k")
    expect(page.get_by_role("button", name=re.compile("✓ kept · hunk 2"))).to_be_visible()
    shortcut(page, "2")
    expect(page.get_by_role("button", name=re.compile("✗ dropped · hunk 2"))).to_be_visible()
    expect(page.get_by_role("button", name="Keep 3 of 4 hunks")).to_be_enabled()
    page.reload()
    expect(page.get_by_role("button", name="Keep 3 of 4 hunks")).to_be_enabled()
    assert not store.waiting(story.session)
