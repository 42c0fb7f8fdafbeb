"""A field keeps its first value where the browser draws only the last of several runs of the page."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.serving import Server

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LATER_S = 0.2
"""The first run is under way, or done."""


def _asks_twice(socket: WebSocketRoute) -> None:
    """Send the browser's first question once more; it gets both answers at once, as a busy one does."""
    server = socket.connect_to_server()
    asked: list[str | bytes] = []

    def ask(message: str | bytes) -> None:
        server.send(message)
        if not asked:
            time.sleep(LATER_S)  # no answer reaches the browser meanwhile
            server.send(message)
        asked.append(message)

    socket.on_message(ask)


@pytest.mark.parametrize(
    ("address", "field", "value"),
    [
        ("/", ".st-key-new-problem", "softmax: Softmax over rows"),
        pytest.param("/gnn?hidden=48", ".st-key-gnn-hidden", "48", marks=pytest.mark.thorough),
        pytest.param("/problems?path=/nowhere", ".st-key-problems-path", "/nowhere", marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_a_page_that_runs_twice_keeps_its_first_values(
    server: Server, own_tab: Page, address: str, field: str, value: str
) -> None:
    page = own_tab
    page.route_web_socket(lambda url: "stream" in url, _asks_twice)
    page.goto(server.url + address)
    expect(page.locator(field).locator("input").first).to_have_value(value)
