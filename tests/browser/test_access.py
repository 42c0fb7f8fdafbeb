"""A server that asks for tokens: nobody gets past without one, viewers look and do nothing."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cutegen_core.records.decision import Decision, DecisionKind
from cutegen_core.records.errors import AccessError
from cutegen_core.trajectory.store import Draft, Store
from pages.components.access.access_keys import COOKIE
from tests.browser.test_served import UPGRADE
from tests.later import Later
from tests.pages.stories import softmax_story
from tests.patience import PATIENCE_S, wait_until
from tests.serving import Server, no_engine, served

access = Later("pages.components.access.access")

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def guarded(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    own = tmp_path_factory.mktemp("guarded")
    (own / "cache").symlink_to(home / "cache")
    with no_engine(own), served(own, CUTEGEN_TOKEN="1") as server:
        yield server


def link(server: Server, role: str) -> str:
    """Return the link that the terminal shows."""
    found: list[str] = []
    log = server.home / "server.log"
    wait_until(lambda: found.extend(re.findall(rf"{role}: (\S+)\n", log.read_text())) or found, "no link was printed")
    return found[-1]


def answer(server: Server, method: str, path: str, cookie: str = "", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    given = {name.replace("_", "-"): value for name, value in headers.items()} | ({"Cookie": cookie} if cookie else {})
    connection.request(method, path, headers=given)
    return connection.getresponse()


def cookie_of(server: Server, role: str) -> str:
    """Return what the browser holds after it has followed the role's link."""
    token = link(server, role).partition("token=")[2]
    entered = answer(server, "GET", f"/session?id=7&token={token}")
    assert (entered.status, entered.getheader("location")) == (303, "/session?id=7")
    return (entered.getheader("set-cookie") or "").partition(";")[0]


ROUTES = (("GET", "/"), ("GET", "/session?id=1"), ("GET", "/media/x.png"), ("PUT", "/_stcore/upload_file/a/b"),
          ("GET", "/_stcore/host-config"), ("GET", "/?token=wrong"))  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "cookie", ["", f"{COOKIE}=owner.9999999999.{'0' * 64}", f"{COOKIE}=owner", f"{COOKIE}=owner.x.y"]
)
def test_nobody_gets_in_without_a_token(guarded: Server, method: str, path: str, cookie: str) -> None:
    refused = answer(guarded, method, path, cookie)
    assert refused.status == 401
    assert b"link that the terminal printed" in refused.read()
    assert answer(guarded, "GET", "/_stcore/stream", cookie, **UPGRADE).status == 403


def test_a_link_lets_in_and_leaves_no_token_in_the_address(guarded: Server) -> None:
    owner, viewer = cookie_of(guarded, "owner"), cookie_of(guarded, "viewer")
    for cookie in (owner, viewer):
        assert answer(guarded, "GET", "/", cookie).status == 200
        assert answer(guarded, "GET", "/_stcore/stream", cookie, **UPGRADE).status == 101
    refused = answer(guarded, "PUT", "/_stcore/upload_file/a/b", viewer)
    assert (refused.status, b"You look on" in refused.read()) == (403, True)
    assert b"You look on" not in answer(guarded, "PUT", "/_stcore/upload_file/a/b", owner).read()
    forged = viewer.replace("viewer", "owner")
    assert answer(guarded, "GET", "/", forged).status == 401


def test_the_cookie_is_the_browsers_secret_and_other_origins_get_nothing(guarded: Server) -> None:
    token = link(guarded, "owner").partition("token=")[2]
    plain = answer(guarded, "GET", f"/?token={token}")
    flags = (plain.getheader("set-cookie") or "").lower()
    assert all(flag in flags for flag in ("httponly", "samesite=lax", "max-age=2592000", "path=/"))
    assert "secure" not in flags
    assert (plain.getheader("cache-control"), plain.getheader("referrer-policy")) == ("no-store", "no-referrer")
    behind_tls = answer(guarded, "GET", f"/?token={token}", X_Forwarded_Proto="https")
    assert "secure" in (behind_tls.getheader("set-cookie") or "").lower()
    elsewhere = answer(guarded, "GET", f"//evil.example/x?token={token}")
    assert (elsewhere.status, elsewhere.getheader("location")) == (303, "/evil.example/x")
    foreign = {**UPGRADE, "Origin": "http://evil.example"}
    assert answer(guarded, "GET", "/_stcore/stream", cookie_of(guarded, "owner"), **foreign).status == 403


@pytest.mark.thorough
def test_a_viewer_sees_a_session_and_decides_nothing(guarded: Server, page: Page) -> None:
    store = Store(guarded.home / "store.db")
    story = softmax_story(store)
    before = store.last_seq(story.session)
    page.goto(link(guarded, "viewer"))
    page.goto(f"{guarded.url}/session?id={story.session}")
    expect(page.get_by_text("softmax").first).to_be_visible()
    expect(page.get_by_text("nothing can be run").first).to_be_visible()
    page.keyboard.press("a")
    assert page.get_by_role("button", name="Approve").count() == 0
    assert store.waiting(story.session) == []
    assert store.last_seq(story.session) == before
    page.goto(f"{guarded.url}/present?id={story.session}")
    expect(page.locator(".pr-slide h2")).to_contain_text("Step 5")
    page.goto(f"{guarded.url}/setup")
    expect(page.get_by_text("nothing can be run").first).to_be_visible()
    assert page.get_by_text("API key for this server").count() == 0


def test_what_a_viewer_looks_at_cannot_be_written(tmp_path: Path) -> None:
    story = softmax_story(Store(tmp_path / "store.db"))
    looked_at = Store(tmp_path / "store.db", read_only=True)
    assert looked_at.events(story.session)
    for write in (
        lambda: looked_at.submit(story.session, Decision(DecisionKind.STOP)),
        lambda: looked_at.put("a kernel"),
        lambda: looked_at.save_draft(story.session, Draft("", "typed")),
        lambda: looked_at.set_live(story.session, "here I was"),
    ):
        with pytest.raises(AccessError, match="nothing can be run"):
            write()


@pytest.mark.parametrize(
    ("address", "wanted"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), (None, True), ("10.0.0.7", True),
     ("box.example", True)],
)  # fmt: skip
def test_another_address_than_this_machines_own_asks_for_tokens(
    address: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUTEGEN_TOKEN", raising=False)
    assert access.is_wanted(address) is wanted
