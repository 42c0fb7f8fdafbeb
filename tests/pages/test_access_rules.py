"""Cookies, tickets, guesses and the rules of `access.toml`, without a server."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cutegen_core.records.errors import AccessError, UsageError
from pages.components.access.access_keys import PERSON_KEPT_S, TICKET_KEPT_S, TOKEN_KEPT_S, Access, AccessRole, Bearer
from pages.components.access.access_middleware import (
    GUESSES,
    GUESSES_IN_ALL,
    GUESSES_WITHIN_S,
    AccessMiddleware,
    OriginMiddleware,
)
from pages.components.access.access_people import People, people
from tests.later import Later

access = Later("pages.components.access.access")

ANN, TEAM = Bearer(None, ("ann@example.org",)), Bearer(None, ("kernels", "everybody"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    return tmp_path


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.time() + seconds
    monkeypatch.setattr(time, "time", lambda: now)


@pytest.mark.parametrize(
    ("bearer", "kept_s"), [(Bearer(AccessRole.OWNER), TOKEN_KEPT_S), (ANN, PERSON_KEPT_S), (TEAM, PERSON_KEPT_S)]
)
def test_a_cookie_says_whose_it_is_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bearer: Bearer, kept_s: int
) -> None:
    made = Access.fresh(tmp_path)
    cookie = made.cookie(bearer)
    assert Access.fresh(tmp_path).bearer(cookie) == bearer, "a restart keeps the key"
    assert made.bearer(cookie[:-1] + ("0" if cookie[-1] != "0" else "1")) is None
    for forged in ("", ".", "owner", "owner.9999999999.", cookie.replace(".", ".9", 1)):
        assert made.bearer(forged) is None
    later(monkeypatch, kept_s + 2)
    assert made.bearer(cookie) is None


def test_deleting_the_key_puts_everybody_out(tmp_path: Path) -> None:
    cookie = Access.fresh(tmp_path).cookie(Bearer(AccessRole.OWNER))
    assert (tmp_path / "access.key").stat().st_mode & 0o077 == 0
    (tmp_path / "access.key").unlink()
    assert Access.fresh(tmp_path).bearer(cookie) is None


def test_a_ticket_is_good_once_and_is_no_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Access.fresh(tmp_path)
    ticket, other = made.ticket(ANN.claims), made.ticket(ANN.claims)
    assert made.bearer(ticket) is None
    assert made.bearer_of_ticket(ticket) == ANN
    assert made.bearer_of_ticket(ticket) is None
    assert made.bearer_of_ticket(made.cookie(ANN)) is None
    later(monkeypatch, TICKET_KEPT_S + 2)
    assert made.bearer_of_ticket(other) is None


def ask(guard: AccessMiddleware, query: str, cookie: str = "", client: str = "10.0.0.1") -> int:
    """Return the status of one GET through the middleware; 200 where it let through."""
    scope = {
        "type": "http", "method": "GET", "path": "/", "scheme": "http", "query_string": query.encode(),
        "headers": [(b"cookie", cookie.encode())] if cookie else [], "client": (client, 1),
    }  # fmt: skip
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    # in a thread of its own: a browser's tests, when they came before, have left a running loop in this one
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, guard(scope, receive, send)).result()
    return int(sent[0]["status"])


async def everything(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_guessing_is_slowed_down_and_holds_nobody_else_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Access.fresh(tmp_path)
    guard, right = AccessMiddleware(everything, made), f"token={made.tokens[AccessRole.VIEWER]}"
    assert [ask(guard, "token=guess") for _ in range(GUESSES)] == [401] * GUESSES
    assert ask(guard, right) == ask(guard, "ticket=guess") == 429
    assert ask(guard, right, client="10.0.0.2") == 303
    assert ask(guard, "", f"{access.COOKIE}={made.cookie(Bearer(AccessRole.VIEWER))}") == 200
    now = time.monotonic() + GUESSES_WITHIN_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert ask(guard, right) == 303


def test_guesses_from_ever_new_addresses_are_slowed_down_too(tmp_path: Path) -> None:
    """Behind a proxy the address is what a stranger's X-Forwarded-For says."""
    made = Access.fresh(tmp_path)
    guard, right = AccessMiddleware(everything, made), f"token={made.tokens[AccessRole.VIEWER]}"
    said = [ask(guard, "token=guess", client=f"10.1.{i // 200}.{i % 200}") for i in range(GUESSES_IN_ALL + 50)]
    assert said == [401] * GUESSES_IN_ALL + [429] * 50
    assert ask(guard, right, client="10.9.9.9") == 429
    assert ask(guard, "", f"{access.COOKIE}={made.cookie(Bearer(AccessRole.VIEWER))}") == 200


@pytest.mark.parametrize("length", [0, 1, 31, 33])
def test_a_key_that_is_not_whole_lets_nobody_in(tmp_path: Path, length: int) -> None:
    (tmp_path / "access.key").write_bytes(b"k" * length)
    (tmp_path / "access.key").chmod(0o600)
    with pytest.raises(UsageError, match=rf"holds {length} bytes instead of 32 and is not used. Delete it"):
        Access.fresh(tmp_path)


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    Access.fresh(tmp_path)
    (tmp_path / "access.key").chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others and is not used"):
        Access.fresh(tmp_path)


def test_a_key_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="No space"):
            Access.fresh(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: Access.fresh(tmp_path).key, range(32)))
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 1


def test_a_short_cookie_secret_turns_no_login_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "access.toml").write_text('owners = ["ann@example.org"]\n')
    for secret in ("", "x" * 31):
        secrets = Secrets({"auth": {"cookie_secret": secret}})
        monkeypatch.setattr(access.st, "secrets", secrets)
        with pytest.raises(UsageError, match="fewer than 32 characters"):
            access.middleware(Access.fresh(home))


class Secrets(dict[str, Any]):
    def load_if_toml_exists(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8501", "127.0.0.1:8501", True), ("http://127.0.0.1:3000", "127.0.0.1:8501", False),
        ("http://localhost:8501", "127.0.0.1:8501", False), ("https://box.example.org", "box.example.org", True),
        ("https://box.example.org", "box.example.org:443", True), ("https://evil.example", "box.example.org", False),
        ("http://box", "Box:80", True), ("http://box:443", "box", False), ("null", "box", False), ("", "box", False),
        ("http://box.evil.net", "box", False), ("chrome-extension://box", "box", False), (None, "box", True),
    ],
)  # fmt: skip
def test_a_websocket_opens_for_its_own_origin_only(origin: str | None, host: str, own: bool) -> None:
    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin is not None else [])
    reached: list[str] = []
    sent: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(scope["type"])

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def send_all() -> None:
        guard = OriginMiddleware(app)
        await guard({"type": "websocket", "headers": headers}, None, send)  # type: ignore[arg-type]
        await guard({"type": "http", "method": "PUT", "headers": headers}, None, send)  # type: ignore[arg-type]
        await guard({"type": "http", "method": "GET", "headers": headers}, None, send)  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, send_all()).result()
    assert reached == (["websocket", "http", "http"] if own else ["http"])
    assert sent == ([] if own else ["websocket.close", "http.response.start", "http.response.body"])


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        (("ann@example.org",), AccessRole.OWNER), (("ANN@Example.org",), AccessRole.OWNER),
        (("bob@example.org",), AccessRole.VIEWER),
        (("@example.org",), None), (("ann@example.org.evil.net",), None), (("eve@sub.example.org",), None),
        (("x", "kernels"), AccessRole.VIEWER), ((), None), (("*@example.org",), AccessRole.VIEWER),
    ],
)  # fmt: skip
def test_rules_name_people_domains_and_groups(claims: tuple[str, ...], role: AccessRole | None) -> None:
    rules = People(owners=("ann@example.org",), viewers=("*@example.org", "kernels"))
    assert rules.role(claims) is role


@pytest.mark.parametrize(
    ("user", "claim", "claims"),
    [
        ({"email": "a@b.c"}, "email", ("a@b.c",)), ({"email": "a@b.c", "email_verified": False}, "email", ()),
        ({"email": "a@b.c", "email_verified": True}, "email", ("a@b.c",)), ({}, "email", ()),
        ({"groups": ["x", "y", 3, ""]}, "groups", ("x", "y")), ({"groups": {"x": 1}}, "groups", ()),
        ({"groups": ["x"], "email_verified": False}, "groups", ("x",)),
    ],
)  # fmt: skip
def test_what_counts_of_a_login(user: dict[str, Any], claim: str, claims: tuple[str, ...]) -> None:
    assert People(claim=claim).claims(user) == claims


def test_the_file_is_the_switch_and_is_read_again(home: Path) -> None:
    assert people() is None
    assert not access.is_wanted("127.0.0.1")
    (home / "access.toml").write_text('owners = ["ann@example.org"]\n')
    assert access.is_wanted("127.0.0.1")
    assert people() == People(owners=("ann@example.org",))
    (home / "access.toml").write_text('claim = "groups"\nviewers = ["kernels", "compilers"]\n')
    assert people() == People("groups", viewers=("kernels", "compilers"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("owners = [", "is not valid TOML"), ("claim = " + "9" * 5000, "is not valid TOML"),
     ("owners = " + "[" * 9999, "is not valid TOML"), ('owner = ["x"]', "unknown setting 'owner'"),
     ('owners = "x"', "a list of strings"), ("owners = [1]", "a list of strings"),
     ("claim = 1", "claim must be a string")],
)  # fmt: skip
def test_a_file_that_cannot_be_used_lets_nobody_in(home: Path, text: str, said: str) -> None:
    (home / "access.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        people()


def test_logins_without_streamlits_part_do_not_start(home: Path) -> None:
    (home / "access.toml").write_text('owners = ["ann@example.org"]\n')
    with pytest.raises(UsageError, match=r"has no \[auth\]"):
        access.middleware(Access.fresh(home))


def test_a_stranger_owns_nothing(home: Path) -> None:
    (home / "access.toml").write_text("")
    assert access.role() is None
    with pytest.raises(AccessError):
        access.require_owner()
