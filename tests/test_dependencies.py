"""What the application imports is declared, and what is declared is used: nothing arrives by way of another package."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from cutegen_core.machine import toolchain
from tests.places import ROOT
from tests.test_house import nodes_of

pytestmark = pytest.mark.xdist_group("test_house.py")
"""In that file's process, which reads the same modules."""

OURS = {"cutegen_core", "pages"}
RUN_AS_COMMANDS = {"ninja": "`python -m ninja` builds the emulator", **dict.fromkeys(toolchain.WHEELS, "by path")}
"""Declared, used and never imported, and how."""
OF_REFERENCES = {"einops": "references are written with it, those of KernelBench too"}
IF_THERE = {"keyring": "a person may install it"}


def sources() -> list[Path]:
    return [ROOT / "app.py", *(path for room in sorted(OURS) for path in (ROOT / room).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Top-level names, and the modules that `app.py` loads early by name."""
    found: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module or "")
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEEDED_SOON":
            found |= set(ast.literal_eval(node.value))
    return {name.partition(".")[0] for name in found}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normal(re.split(r"[^A-Za-z0-9._-]", wanted)[0]) for wanted in project["dependencies"]}


@cache
def providers() -> dict[str, set[str]]:
    """Imported name to the distributions that bring it; `cuda` is shared by several."""
    foreign = set().union(*map(imported, sources())) - OURS - set(sys.stdlib_module_names) - IF_THERE.keys()
    installed = metadata.packages_distributions()
    return {name: {normal(each) for each in installed.get(name, ())} for name in foreign}


def test_every_package_that_is_imported_is_declared():
    assert {name: found for name, found in providers().items() if not found & declared()} == {}


def test_every_package_that_is_declared_is_used():
    used = set().union(*providers().values()) | set(RUN_AS_COMMANDS) | set(OF_REFERENCES)
    assert declared() - used == set()


def test_every_declared_package_has_its_reason():
    reasons = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in sorted(declared()) if name not in reasons] == []
