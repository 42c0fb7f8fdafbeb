"""Files of the workspace: whole or not there, and nobody else's business."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cutegen_core import engine
from cutegen_core.machine import workspace
from cutegen_core.problems import saved
from cutegen_core.propose.llm import model_settings, secret_keys
from cutegen_core.trajectory.store import Store
from tests.problems.test_lint import SOUND


@pytest.fixture
def open_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that existed before, open to all, under a umask that closes nothing."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("CUTEGEN_HOME", str(home))
    before = os.umask(0)
    yield home
    os.umask(before)


def modes(home: Path) -> dict[str, int]:
    return {str(path.relative_to(home)): path.stat().st_mode & 0o077 for path in home.rglob("*")}


def fill(home: Path) -> None:
    store = Store()
    store.put("a text")
    engine.touch_client()
    assert not engine.is_running()
    model_settings.write(model_settings.read())
    secret_keys.save_key("https://models.example.org", "sk-0123456789")
    saved.save("mine", SOUND, ())
    workspace.cache_dir("cubins")
    assert {"store.db-wal", "store.db-shm"} <= modes(home).keys()


def test_everything_is_private_in_a_folder_that_existed(open_home: Path) -> None:
    fill(open_home)
    assert {name: mode for name, mode in modes(open_home).items() if mode} == {}


def test_files_of_an_older_version_become_private(open_home: Path) -> None:
    first = Store()
    first.put("a text")
    (open_home / "client").touch()
    for path in open_home.iterdir():
        path.chmod(0o666)
    first.put("another")
    fill(open_home)
    first.put("a third: its locks still hold")
    assert {name: mode for name, mode in modes(open_home).items() if mode} == {}


def test_a_file_is_replaced_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.toml"
    workspace.replace_file(file, "old")

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fails)
            with pytest.raises(OSError, match="Input/output"):
                workspace.replace_file(file, "new")
        assert file.read_text() == "old"
        assert list(tmp_path.iterdir()) == [file]
