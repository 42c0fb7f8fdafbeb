"""Whatever documents, docstrings and comments refer to is there: links, files, modules, names, commands, figures."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from cutegen_core import cli
from tests.places import ROOT

DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
SOURCES = [ROOT / name for name in TRACKED if name.endswith(".py") and not name.startswith("tests/data/")]
TAILS = {name.split("/", skipped)[-1] for name in TRACKED for skipped in range(name.count("/") + 1)}
"""Every tracked path, with any number of its first folders left out."""
FOLDERS = {name.split("/")[0] for name in TRACKED if "/" in name and not name.startswith(".")}
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})(?:/[\w.*-]+)+/?|[\w/-]*\w\.(?:py|md|js|css|jinja|j2)")
"""A word that must be a path of this repository."""
NOT_OURS = {"cuda", "st", "torch", "browser", "server"}
"""The first names of dotted words from elsewhere: packages, and Streamlit's settings."""
INVENTED = {"make_inputs"}
"""Names that an example gets wrong on purpose."""


# -- what is quoted in backticks ---------------------------------------------------------------------------------------


def prose(path: Path) -> str:
    """Return a document without its code blocks, or a module: its code has no backticks."""
    text = path.read_text()
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE) if path.suffix == ".md" else text


@lru_cache(maxsize=1)
def quoted() -> tuple[tuple[Path, str], ...]:
    """Return every word in backticks with its file."""
    found = []
    for path in (*DOCUMENTS, *SOURCES):
        for text in re.findall(r"`([^`\n]+)`", prose(path)):
            found += [(path, word.strip("().,:;")) for word in text.split()]
    return tuple(dict.fromkeys(found))


def told(problems: Iterator[tuple[Path, str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}: {word}" for path, word in problems]


# -- links, files, modules, names --------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *(ROOT / "docs").glob("*/*.md"), ROOT / "CHANGELOG.md"], ids=lambda path: path.name
)
def test_every_link_leads_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if re.match(r"\w+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = document.parent / place if place else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def is_path(name: str, near: Path) -> bool:
    """Tell whether a file is there: from the root, next to the text that names it, or as the end of a tracked path."""
    plain = name.rstrip("/")
    if "*" in plain:
        return any(ROOT.glob(plain))
    return (ROOT / plain).exists() or (near / plain).exists() or plain in TAILS


PLACEHOLDER = re.compile(r"NAME|FAMILY|PROBLEM")
"""What a reader replaces by a name of their own."""


def test_every_file_they_name_exists():
    named = [(p, w) for p, w in quoted() if PATH.fullmatch(w) and not PLACEHOLDER.search(w)]
    assert told((p, w) for p, w in named if not is_path(w, p.parent)) == []


@lru_cache(maxsize=1)
def modules() -> dict[str, list[str]]:
    """Return the dotted paths of all modules and packages, by their last name."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            found.setdefault(parts[-1], []).append(".".join(parts))
    return found


def is_module_path(word: str) -> bool:
    """Tell whether those names of a dotted word that modules have, too, follow the name of their package or module."""
    names = word.split(".")
    for at, name in enumerate(names):
        if at == 0 or name not in modules():
            continue
        package = ".".join(names[:at])
        if any(f".{path}".endswith(f".{package}.{name}") for path in modules()[name]):
            continue
        owners = [ROOT / f"{path.replace('.', '/')}.py" for path in modules().get(names[at - 1], ())]
        if not any(owner.exists() and re.search(rf"\b{name}\b", owner.read_text()) for owner in owners):
            return False
    return True


def test_every_module_they_name_exists():
    dotted = [(p, w) for p, w in quoted() if re.fullmatch(r"[a-z]\w*(\.\w+)+", w) and w.split(".")[0] not in NOT_OURS]
    files = {Path(name).name for name in TRACKED}
    assert told((p, w) for p, w in dotted if w not in files and not is_module_path(w)) == []
    for path in (*DOCUMENTS, *SOURCES):
        for name in re.findall(r"python -m ((?:" + "|".join(FOLDERS) + r")(?:\.\w+)+)", path.read_text()):
            assert name in modules().get(name.split(".")[-1], []), f"{path}: {name}"


def test_every_identifier_they_name_is_in_the_code():
    """Only words that cannot be plain English: with an underscore or a dot."""
    known = {name for path in TRACKED for name in re.split(r"[/.]", path)}
    for name in TRACKED:
        if name.endswith((".py", ".js", ".cpp", ".h", ".hpp", ".cu", ".jinja", ".j2", ".toml", ".css")):
            code = (ROOT / name).read_text(errors="replace")
            known |= set(re.findall(r"[A-Za-z_]\w*", re.sub(r"`[^`\n]+`", "", code) if name.endswith(".py") else code))
    words = [(p, w) for p, w in quoted() if re.fullmatch(r"[a-z_]\w*(\.\w+)*", w) and re.search(r"[_.]", w)]
    ours = [
        (p, w) for p, w in words if w.split(".")[0] not in NOT_OURS and w not in INVENTED and not PLACEHOLDER.search(w)
    ]
    assert told((p, w) for p, w in ours if not set(w.split(".")) <= known) == []


# -- commands and figures ----------------------------------------------------------------------------------------------

COMMAND = re.compile(r"(?:^|`)cutegen ([a-z-]+)([^`\n]*)", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_exists(document, capsys):
    for command, rest in COMMAND.findall(document.read_text()):
        assert command in cli.command_names(), command
        inner = re.match(r" ([a-z]+)\b", rest) if command == "gnn" else None
        with pytest.raises(SystemExit):
            cli.main([command, *([inner[1]] if inner else []), "--help"])
        options = capsys.readouterr().out
        for option in re.findall(r"(?<!\S)\[?(--?[a-z][a-z-]*)", rest.split("  ")[0]):
            assert option in options, f"cutegen {command} {option}"


def test_the_command_line_has_a_page_with_every_command():
    named = {command for command, _ in COMMAND.findall((ROOT / "docs" / "command-line.md").read_text())}
    assert named == set(cli.command_names())


def test_every_figure_names_its_script_and_its_result():
    lines = re.findall(r"^\|(?! what |---)(.+)\|$", (ROOT / "docs" / "measuring.md").read_text(), re.MULTILINE)
    assert len(lines) > 20
    results = set()
    for what, _, script, result in ([cell.strip() for cell in line.split("|")] for line in lines):
        by_hand = script.startswith("by hand")
        assert by_hand or re.search(r"`python (-m )?(benchmarks|tests)\b", script), what
        linked = re.findall(r"\(\.\./(benchmarks/results/[^)]+)\)", result)
        assert bool(linked) is not by_hand, what
        results |= set(linked)
    assert results == {name for name in TRACKED if name.startswith("benchmarks/results/")}
