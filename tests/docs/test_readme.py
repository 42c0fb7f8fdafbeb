"""The README is true: its tree is the tree, its commands exist, nothing in it waits to be filled in."""

import re

from cutegen_core import cli
from docs import readme_tree
from tests.places import ROOT

README = ROOT / "README.md"


def test_the_tree_is_current():
    text = README.read_text()
    assert readme_tree.with_tree(text) == text, "run: python -m docs.readme_tree"


def test_every_command_it_names_exists():
    named = set(re.findall(r"^cutegen ([a-z]+)", README.read_text(), re.MULTILINE))
    assert named <= set(cli.command_names())
    assert {"app", "doctor", "problems", "check", "run", "export", "import", "replay"} <= named


def test_nothing_waits_to_be_filled_in():
    assert not re.findall(r"@@|TODO|TBD", README.read_text())


def test_every_picture_and_file_it_links_exists():
    for link in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / link).exists(), link
