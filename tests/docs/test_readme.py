"""The README is short, its commands work as written, and its map has every room."""

import re
import shlex
import subprocess
from pathlib import Path

from cutegen_core.machine.package import PACKAGE
from tests.places import ROOT

README = ROOT / "README.md"
TEXT = README.read_text()
LARGEST_BYTES = 15_000


def section(title: str) -> str:
    """Return the text of one section of the README."""
    return re.split(r"^## ", TEXT.split(f"## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.splitlines()]


def test_it_is_short():
    assert README.stat().st_size <= LARGEST_BYTES


def test_its_two_commands_are_there_and_the_install_shows_its_progress():
    install, test = re.findall(r"^```bash\n(.*?)\n```$", section("Two commands"), re.MULTILINE)
    words = shlex.split(install.split("&&")[1])
    assert words[:2] == [".venv/bin/pip", "install"]
    assert not {"-q", "--quiet"} & set(words)
    assert (ROOT / words[words.index("-c") + 1]).exists()
    assert install.endswith(".venv/bin/cutegen app")
    assert (ROOT / test.removeprefix("bash ")).exists()


def test_its_map_names_every_room_and_every_folder():
    mapped = section("Map")
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    front = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {path.parts[0] for path in tracked("*/*") if not path.parts[0].startswith(".")}
    assert rooms
    assert front
    assert [name for name in (*rooms, *folders) if not re.search(rf"\b{name}/", mapped)] == []
    assert [name for name in front if not re.search(rf"^  .*\b{name}\b", mapped, re.MULTILINE)] == []


def test_the_rooms_of_its_map_are_in_the_order_of_the_imports():
    contract = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert contract
    layers = [re.findall(r"\w+", layer) for layer in re.findall(r'"(.*?)"', contract[1])]
    level = {room: number for number, layer in enumerate(layers) for room in layer}
    rooms = [room for room in re.findall(r"^  (\w+)/", section("Map"), re.MULTILINE) if room in level]
    assert [level[room] for room in rooms] == sorted(level[room] for room in rooms)


def test_nothing_waits_to_be_filled_in():
    for path in (README, *(ROOT / "docs").glob("*.md")):
        assert not re.findall(r"@@|TODO|TBD", path.read_text()), path.name
