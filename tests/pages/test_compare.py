"""Compare: the four-way delta in one glance and in full, of steps across branches and sessions, by key and address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cutegen_core.trajectory.store import Store
from tests.pages.conftest import OpenPage, shown
from tests.pages.gpu_stories import branched_story, gpu_story
from tests.pages.stories import softmax_story

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def tiles(page: AppTest) -> dict[str, str]:
    """Return their text by name."""
    html = next(str(one.value) for one in page.html if "cg-tiles" in str(one.value))
    found = re.findall(r'<section class="cg-tile"><h2[^>]*>(.*?)</h2>(.*?)</section>', html)
    return {name: re.sub(r"<[^>]+>", " ", text) for name, text in found}


def asked(page: AppTest) -> tuple[str, str]:
    return "".join(page.query_params["a"]), "".join(page.query_params["b"])


def test_the_delta_is_told_four_ways(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    found = tiles(open_page("compare", a=f"{session}.3", b=f"{session}.5"))
    assert list(found) == ["Source", "Time", "Resources", "Machine code"]
    assert "lines" in found["Source"]
    assert "▲ 1.16x faster" in found["Time"]
    assert re.search(r"benchmark: 152\.4 µs → 131\.2 µs, speedup 1\.1\d\d to 1\.1\d\d", found["Time"])
    assert "registers 32 → 40 ▲ +8" in found["Resources"]
    assert "instructions 649 → 649 =" in found["Machine code"]
    assert "no class changed" in found["Machine code"]


def test_machine_code_says_what_changed_most(store: Store, open_page: OpenPage) -> None:
    session = softmax_story(store).session
    page = open_page("compare", a=f"{session}.1", b=f"{session}.3")
    found = tiles(page)
    assert "▲ +24" in found["Machine code"].split("FFMA")[0]
    assert "FFMA 18 → 30 ▲ +12" in found["Machine code"]
    assert "neither was timed" in found["Time"]
    text = shown(page)
    assert text.index(">FFMA<") < text.index(">FADD<") < text.index(">MUFU<")


def test_sides_are_swapped_and_b_walks_over_branches(store: Store, open_page: OpenPage) -> None:
    session = branched_story(store).session
    page = open_page("compare", a=f"{session}.8", b=f"{session}.10")
    assert re.search(r"▼ [\d.]+x slower", tiles(page)["Time"])
    page.button(key="compare-swap").click().run()
    assert asked(page) == (f"{session}.10", f"{session}.8")
    assert re.search(r"▲ [\d.]+x faster", tiles(page)["Time"])
    page.button(key="compare-newer").click().run()
    assert asked(page) == (f"{session}.10", f"{session}.9")
    assert "only A was timed" in tiles(page)["Time"]
    page.selectbox(key="compare-step-b").select(f"{session}.11").run()
    assert asked(page) == (f"{session}.10", f"{session}.11")
    assert "x faster" in tiles(page)["Time"]


def test_both_sides_have_keys_and_a_is_the_best_or_the_parent_of_b(store: Store, open_page: OpenPage) -> None:
    session = branched_story(store).session
    page = open_page("compare", a=f"{session}.3", b=f"{session}.7")
    shortcuts = {b.proto.shortcut.lower() for b in page.button if b.proto.shortcut}
    assert {"s", "o", "n", "shift+o", "shift+n", "v", "shift+v"} <= shortcuts
    page.button(key="compare-a-newer").click().run()
    assert asked(page) == (f"{session}.4", f"{session}.7")
    page.button(key="compare-parent").click().run()
    assert asked(page) == (f"{session}.5", f"{session}.7")
    assert page.button(key="compare-parent").disabled
    page.button(key="compare-best").click().run()
    assert asked(page) == (f"{session}.11", f"{session}.7")


def test_numbers_that_changed_come_first_and_equal_ones_are_folded(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    page = open_page("compare", a=f"{session}.3", b=f"{session}.5")
    table = next(str(one.value) for one in page.html if ">registers<" in str(one.value))
    changed, _, equal = table.partition("<details")
    assert ">registers<" in changed
    assert "spill stores" not in changed
    assert "spill stores" in equal
    assert "compile, s" in equal, "the machine's, not the kernel's"
    assert "8 equal numbers" in equal


def test_best_is_a_step_and_a_suspect_time_no_result(store: Store, open_page: OpenPage) -> None:
    session = gpu_story(store).session
    page = open_page("compare", a=f"{session}.best", b=f"{session}.6")
    assert "A · step 5: one pass, 128-bit loads by playbook" in shown(page)
    assert "SUSPECT" in tiles(page)["Time"]
    assert "x faster" not in shown(page)


def test_two_sessions_and_one_text(store: Store, open_page: OpenPage) -> None:
    one, other = gpu_story(store).session, softmax_story(store).session
    found = tiles(open_page("compare", a=f"{one}.1", b=f"{other}.1"))
    assert "= identical" in found["Source"]
    assert "only A was timed" in found["Time"]


def test_a_link_to_a_session_that_is_gone_says_so_where_there_is_no_other(open_page):
    page = shown(open_page("compare", a="gone.1"))
    assert "There is no session “gone”" in page
    assert "no session has been started" in page


@pytest.mark.parametrize(("b", "said"), [("x.1", "There is no session “x”"), ("{}.99", "has no kernel in step “99”")])
def test_what_is_not_there_is_said(store: Store, open_page: OpenPage, b: str, said: str) -> None:
    session = softmax_story(store).session
    assert said in shown(open_page("compare", a=f"{session}.1", b=b.format(session)))
