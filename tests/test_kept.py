"""What a run keeps for the next: never an entry of other code, never more than two folders, never one in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import kept


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout in place of this one."""
    for room in {room for rooms in kept.DECIDED_BY.values() for room in rooms}:
        folder = tmp_path / "cutegen_core" / room
        folder.mkdir(parents=True)
        (folder / "code.py").write_text("one = 1\n")
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    return tmp_path / "cutegen_core"


def folders(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir()}


def test_the_rooms_whose_code_decides_are_there() -> None:
    for rooms in kept.DECIDED_BY.values():
        assert all((kept.ROOT / "cutegen_core" / room).is_dir() for room in rooms)


def test_another_run_finds_what_was_built_and_other_code_does_not(sources: Path, tmp_path: Path) -> None:
    with kept.linked(tmp_path / "kept", tmp_path / "first"):
        (tmp_path / "first" / "compile" / "entry").write_text("a cubin")
    with kept.linked(tmp_path / "kept", tmp_path / "second"):
        assert (tmp_path / "second" / "compile" / "entry").read_text() == "a cubin"
    (sources / "execute" / "compiler" / "code.py").write_text("one = 2\n")
    with kept.linked(tmp_path / "kept", tmp_path / "third"):
        assert not list((tmp_path / "third" / "compile").iterdir())
        assert (tmp_path / "third" / "emulator").resolve() == (tmp_path / "second" / "emulator").resolve()


def test_two_folders_of_a_cache_stay_and_none_goes_while_a_run_uses_them(sources: Path, tmp_path: Path) -> None:
    for number in range(4):
        (sources / "machine" / "code.py").write_text(f"one = {number}\n")
        with kept.linked(tmp_path / "kept", tmp_path / f"run{number}"):
            for name in kept.DECIDED_BY:
                os.utime((tmp_path / f"run{number}" / name).resolve(), (number, number))
    assert len(folders(tmp_path / "kept")) == len(kept.DECIDED_BY) * kept.GENERATIONS
    with kept.linked(tmp_path / "kept", tmp_path / "using"):
        before = folders(tmp_path / "kept")
        (sources / "machine" / "code.py").write_text("one = 9\n")
        with kept.linked(tmp_path / "kept", tmp_path / "meanwhile"):
            assert folders(tmp_path / "kept") > before


def test_a_folder_that_has_grown_too_large_is_removed(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.linked(tmp_path / "kept", tmp_path / "first"):
        (tmp_path / "first" / "compile" / "entry").write_text("0123456789" * 1000)
    monkeypatch.setattr(kept, "LARGEST_BYTES", 9000)
    with kept.linked(tmp_path / "kept", tmp_path / "second"):
        assert not (tmp_path / "second" / "compile" / "entry").exists()
