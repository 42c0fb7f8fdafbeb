"""A key is found where it belongs, given out for its own server only, and leaks nowhere."""

import os
import pickle
import sys
import tempfile
from pathlib import Path

import pytest

from cutegen_core.machine.child_environment import child_environment
from cutegen_core.propose.llm.secret_keys import MASK, Key, find_key, origin_of, save_key
from cutegen_core.records.errors import UsageError

OPENAI = "https://api.openai.com/v1"
LOCAL = "http://localhost:8000/v1"
CANARY = "sk-canary-7f3a9b2c5d8e1f60"
VARIABLES = ("CUTEGEN_API_KEY", "CUTEGEN_API_HOST", "OPENAI_API_KEY", "OPENAI_BASE_URL")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEGEN_HOME", str(tmp_path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def secret(key, url):
    return key.bearer(url).removeprefix("Bearer ")


@pytest.mark.parametrize(
    ("environment", "base_url", "chosen", "found"),
    [
        ({}, OPENAI, OPENAI, None),
        ({"CUTEGEN_API_KEY": "a"}, LOCAL, LOCAL, "a"),
        ({"CUTEGEN_API_KEY": " a\n"}, LOCAL, LOCAL, "a"),
        ({"CUTEGEN_API_KEY": "a"}, "http://LOCALHOST.:8000/other", LOCAL, "a"),
        ({"CUTEGEN_API_KEY": "a"}, "http://localhost:8001/v1", LOCAL, None),
        ({"CUTEGEN_API_KEY": "a"}, "https://localhost:8000/v1", LOCAL, None),
        ({"CUTEGEN_API_KEY": "a"}, OPENAI, LOCAL, None),
        ({"CUTEGEN_API_KEY": "a"}, OPENAI, "", None),
        ({"CUTEGEN_API_KEY": "a", "CUTEGEN_API_HOST": "api.openai.com"}, OPENAI, LOCAL, "a"),
        ({"CUTEGEN_API_KEY": "a", "CUTEGEN_API_HOST": "api.openai.com"}, LOCAL, LOCAL, None),
        ({"CUTEGEN_API_KEY": "a", "CUTEGEN_API_HOST": "http://localhost:8000"}, LOCAL, "", "a"),
        ({"OPENAI_API_KEY": "o"}, OPENAI, LOCAL, "o"),
        ({"OPENAI_API_KEY": "o"}, "https://api.openai.com:443/v1", "", "o"),
        ({"OPENAI_API_KEY": "o"}, "http://api.openai.com/v1", "", None),
        ({"OPENAI_API_KEY": "o"}, "https://api.openai.com.evil.example/v1", "", None),
        ({"OPENAI_API_KEY": "o"}, "https://api.openai.com@evil.example/v1", "", None),
        ({"OPENAI_API_KEY": "o"}, LOCAL, LOCAL, None),
        ({"OPENAI_API_KEY": "o", "CUTEGEN_API_HOST": "http://localhost:8000"}, LOCAL, LOCAL, "o"),
        ({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": LOCAL}, LOCAL, "", "o"),
        ({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": LOCAL}, OPENAI, "", None),
        ({"CUTEGEN_API_KEY": "a", "OPENAI_API_KEY": "o"}, OPENAI, OPENAI, "a"),
        ({"CUTEGEN_API_KEY": "a", "OPENAI_API_KEY": "o"}, OPENAI, LOCAL, "o"),
    ],
)
def test_the_environment_gives_a_key_to_the_server_it_is_meant_for(monkeypatch, environment, base_url, chosen, found):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    key = find_key(base_url, chosen=chosen)
    assert (secret(key, base_url) if key else None) == found


def test_the_secrets_file_is_private_and_per_server(home):
    save_key(OPENAI, CANARY)
    save_key(LOCAL, 'quote"\\back')
    file = home / "secrets.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret(find_key(OPENAI), OPENAI) == CANARY
    assert secret(find_key(LOCAL), LOCAL) == 'quote"\\back'
    assert find_key("http://localhost:8001/v1") is None
    save_key(OPENAI, "sk-new")
    assert secret(find_key(OPENAI), OPENAI) == "sk-new"
    assert secret(find_key(LOCAL), LOCAL) == 'quote"\\back'


def test_what_a_person_wrote_into_the_secrets_file_stays(home):
    file = home / "secrets.toml"
    by_hand = "# of the team\n[\"https://API.openai.com\"]  # until May\napi_key = 'sk-old'  # spent\n"
    file.write_text(by_hand)
    file.chmod(0o600)
    save_key(OPENAI, "sk-new")
    assert file.read_text() == by_hand.replace("'sk-old'", '"sk-new"')
    save_key(LOCAL, CANARY)
    assert file.read_text().startswith(by_hand.replace("'sk-old'", '"sk-new"'))
    assert (secret(find_key(OPENAI), OPENAI), secret(find_key(LOCAL), LOCAL)) == ("sk-new", CANARY)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secrets_file_open_to_others_is_refused_with_the_cure(home, mode):
    save_key(OPENAI, CANARY)
    file = home / "secrets.toml"
    file.chmod(mode)
    with pytest.raises(UsageError, match=r"chmod 600 '.*secrets.toml'"):
        find_key(OPENAI)
    with pytest.raises(UsageError, match="chmod 600"):
        save_key(LOCAL, "x")


@pytest.mark.parametrize(
    "text", [f'["https://x"]\napi_key = "{CANARY}', f'api_key = "{CANARY}"', f'["x"]\nkey = "{CANARY}"']
)
def test_a_broken_secrets_file_is_refused_without_quoting_it(home, text):
    file = home / "secrets.toml"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        find_key(OPENAI)
    assert str(file) in str(caught.value)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_environment_comes_before_the_keyring_and_the_file(home, monkeypatch):
    save_key(OPENAI, "from-file")
    assert find_key(OPENAI).source == str(home / "secrets.toml")
    with_keyring(
        home, monkeypatch, f"return 'from-keyring' if (service, name) == ('cutegen', '{origin_of(OPENAI)}') else None"
    )
    assert secret(find_key(OPENAI), OPENAI) == "from-keyring"
    assert find_key(LOCAL) is None
    monkeypatch.setenv("CUTEGEN_API_KEY", "from-environment")
    assert secret(find_key(OPENAI, chosen=OPENAI), OPENAI) == "from-environment"


def test_a_locked_keyring_is_said_and_a_missing_one_passed_over(home, monkeypatch):
    save_key(OPENAI, "from-file")
    with_keyring(home, monkeypatch, "raise errors.NoKeyringError('none')")
    assert secret(find_key(OPENAI), OPENAI) == "from-file"
    with_keyring(home, monkeypatch, "raise errors.KeyringError('locked')")
    with pytest.raises(UsageError, match="Unlock it"):
        find_key(OPENAI)


def with_keyring(home, monkeypatch, body):
    """Make a package of the keyring's shape that answers as `body` says; the real one talks to a desktop."""
    package = Path(tempfile.mkdtemp(dir=home)) / "keyring"
    package.mkdir()
    (package / "errors.py").write_text(
        "class KeyringError(Exception): pass\nclass NoKeyringError(KeyringError, RuntimeError): pass\n"
    )
    (package / "__init__.py").write_text(f"from keyring import errors\ndef get_password(service, name):\n    {body}\n")
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(package.parent)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.1.2.3:8000/v1", True),
        ("http://gpubox:8000/v1", True),
        ("http://gpubox.local/v1", True),
        ("http://8.8.8.8/v1", False),
        ("http://api.example.com/v1", False),
        ("https://api.example.com/v1", True),
    ],
)
def test_a_key_travels_unencrypted_only_nearby_or_when_confirmed(monkeypatch, url, safe):
    monkeypatch.setenv("CUTEGEN_API_KEY", CANARY)
    if safe:
        assert secret(find_key(url, chosen=url), url) == CANARY
        return
    with pytest.raises(UsageError, match="is not encrypted") as caught:
        find_key(url, chosen=url)
    assert CANARY not in str(caught.value)
    save_key(url, "confirmed")
    assert secret(find_key(url, chosen=url), url) == "confirmed"


def test_a_key_is_given_for_its_own_origin_only():
    key = Key(CANARY, origin_of(OPENAI), "the test")
    assert key.bearer("https://api.openai.com/v1/chat/completions") == f"Bearer {CANARY}"
    for url in ("http://api.openai.com/v1", "https://api.openai.com:8443/v1", "https://evil.example/v1"):
        with pytest.raises(UsageError, match=r"is meant for https://api.openai.com") as caught:
            key.bearer(url)
        assert CANARY not in str(caught.value)


def test_a_key_hides_itself_in_every_form():
    key = Key(CANARY, origin_of(OPENAI), "the test")
    assert str(key) == repr(key) == "Key(for https://api.openai.com, from the test)"
    assert not hasattr(key, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize("broken", ["", "two words", "line\nend", "käse", "tab\t"])
def test_a_key_that_cannot_be_a_header_is_refused_without_quoting_it(broken):
    with pytest.raises(UsageError, match="copy it again") as caught:
        Key(broken, origin_of(OPENAI), "the test")
    assert not broken or broken not in str(caught.value)


def test_scrubbing_takes_out_the_key_and_its_pieces():
    key = Key(CANARY, origin_of(OPENAI), "the test")
    assert key.scrub(f"a {CANARY} b {CANARY[:10]}*** {CANARY[-9:]}.") == f"a {MASK} b {MASK}*** {MASK}."
    assert key.scrub("nothing to hide: sk-") == "nothing to hide: sk-"
    assert Key("abc", origin_of(OPENAI), "t").scrub("xabcx") == f"x{MASK}x"


def test_no_key_reaches_a_child_process(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.setenv(name, CANARY)
    assert CANARY in os.environ["OPENAI_API_KEY"]
    assert CANARY not in repr(child_environment(tmp_path))
