"""The benchmark of the pages knows every page: it ran into a new one after minutes of measuring."""

from __future__ import annotations

import re

from benchmarks.page_speed.changes import USEFUL
from tests.places import ROOT


def test_every_page_has_signs_by_which_it_is_seen() -> None:
    places = (ROOT / "pages" / "components" / "shared" / "places.py").read_text()
    assert set(re.findall(r'title="([^"]+)"', places)) == set(USEFUL)
