"""People log in at an OpenID Connect provider: strangers get the login and nothing else, roles hold at the routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from cutegen_core.trajectory.store import Store
from pages.components.access.access_keys import COOKIE
from tests.browser.driving import shortcut, title_of
from tests.browser.test_access import answer, link
from tests.browser.test_served import UPGRADE
from tests.pages.stories import softmax_story
from tests.serving import Server, free_port, no_engine

if TYPE_CHECKING:
    from tests.browser.oidc_provider import Provider

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

CLIENT, SECRET = "workbench", "a secret of the client"
RULES = 'owners = ["ann@example.org"]\nviewers = ["*@example.org"]\n'


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    pytest.importorskip("authlib", reason="logins need Authlib: pip install 'streamlit[auth]'")
    from tests.browser.oidc_provider import Provider

    provider = Provider(CLIENT, SECRET)
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def asking(home: Path, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    own = tmp_path_factory.mktemp("asking")
    (own / "cache").symlink_to(home / "cache")
    (own / "access.toml").write_text(RULES)
    server = Server(own, port=free_port(), environment={"HOME": str(own)})
    (own / ".streamlit").mkdir()
    (own / ".streamlit" / "secrets.toml").write_text(
        f'[auth]\nredirect_uri = "{server.url}/oauth2callback"\ncookie_secret = "{"x" * 40}"\nclient_id = "{CLIENT}"\n'
        f'client_secret = "{SECRET}"\nserver_metadata_url = "{provider.discovery}"\n'
    )
    with no_engine(own):
        server.start()
        yield server
        server.end()


def cookie(context: BrowserContext) -> str:
    """Return what the browser sends of the workbench's own."""
    return next((f"{c['name']}={c['value']}" for c in context.cookies() if c["name"] == COOKIE), "")  # type: ignore[typeddict-item]


def test_strangers_reach_the_login_and_no_file(asking: Server) -> None:
    assert answer(asking, "GET", "/session?id=1").status == 200
    assert answer(asking, "GET", "/_stcore/stream", **UPGRADE).status == 101
    for method, path in (("GET", "/media/x.png"), ("PUT", "/_stcore/upload_file/a/b"), ("POST", "/")):
        refused = answer(asking, method, path)
        assert (refused.status, b"Log in first" in refused.read()) == (401, True)


def test_people_log_in_and_have_the_role_they_are_given(asking: Server, provider: Provider, page: Page) -> None:
    store = Store(asking.home / "store.db")
    story = softmax_story(store)
    provider.user = {"sub": "1", "email": "Bob@example.org", "email_verified": True}
    context = page.context
    page.goto(f"{asking.url}/session?id={story.session}&step=2")
    login = page.get_by_role("button", name="Log in")
    expect(login).to_be_visible()
    assert page.get_by_text("softmax").count() == 0
    login.click()
    expect(page.get_by_text("nothing can be run").first).to_be_visible()
    expect(page).to_have_url(f"{asking.url}/session?id={story.session}&step=2")
    expect(title_of(page)).to_contain_text("Step 2")
    assert "code_challenge" in provider.asked[-1]
    viewer = cookie(context)
    assert b"You look on" in answer(asking, "PUT", "/_stcore/upload_file/a/b", viewer).read()
    assert answer(asking, "GET", "/media/x.png", viewer).status == 404

    (asking.home / "access.toml").write_text(RULES.replace("ann@", "bob@"))  # he may do everything now
    assert b"You look on" not in answer(asking, "PUT", "/_stcore/upload_file/a/b", viewer).read()
    page.reload()
    expect(page.get_by_role("button", name="Edit & run")).to_be_visible()

    (asking.home / "access.toml").write_text('owners = ["ann@example.org"]\n')  # and now nothing
    assert answer(asking, "GET", "/media/x.png", viewer).status == 401
    shortcut(page, "o")
    expect(page.get_by_text("Bob@example.org has no access")).to_be_visible()
    page.goto(f"{asking.url}/access/leave")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    assert cookie(context) == ""
    assert not any(one["name"].startswith("_streamlit_user") for one in context.cookies())  # type: ignore[typeddict-item]
    (asking.home / "access.toml").write_text(RULES)


@pytest.mark.thorough
def test_an_address_nobody_verified_does_not_enter(asking: Server, provider: Provider, page: Page) -> None:
    provider.user = {"sub": "2", "email": "ann@example.org", "email_verified": False}
    page.goto(asking.url)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("has no access")).to_be_visible()


def test_the_owners_link_still_lets_in(asking: Server) -> None:
    token = link(asking, "owner").partition("token=")[2]
    assert answer(asking, "GET", f"/?token={token}").status == 303
