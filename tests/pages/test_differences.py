"""Differences as pictures: which words are marked, what stands opposite what, and that the text stays whole."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cutegen_core.kernel import hunks
from cutegen_core.views.code_text import diff, highlight, words
from tests.later import Later
from tests.pages.stories import HOSTILE, KERNEL, ONE_PASS, VECTORS

code_tables = Later("pages.components.shared.code_tables")

LINE = st.text(alphabet="ab x=(){};,<>&\"'\t", max_size=24)
LINES = st.lists(LINE, max_size=8)


def _text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def _unfolded(table: str) -> str:
    """Return what is seen at first: without the bodies that a closed checkbox hides."""
    closed = r'<input type="checkbox">.*?</tbody><tbody class="cg-fold-body">.*?</tbody>'
    return _text(re.sub(closed, "", table, flags=re.DOTALL))


def _marked(line: str, ranges: tuple[tuple[int, int], ...]) -> list[str]:
    return [line[low:high] for low, high in ranges]


def test_only_the_words_that_differ_are_marked() -> None:
    old, new = "for (int c = x; c < cols; c += BLOCK) {", "for (int c = x; c < cols; c += BLOCK * 4) {"
    found = words.changed(old, new)
    assert (_marked(old, found.old), _marked(new, found.new)) == ([], [" * 4"])
    assert words.changed("  __syncthreads();", "  return value;") == ((), ())


@settings(max_examples=200)
@given(line=LINE, ranges=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=3))
def test_marking_words_changes_no_character(line: str, ranges: list[tuple[int, int]]) -> None:
    pieces = highlight.pieces(line + "\n")
    for piece in pieces:
        assert _text(highlight.marked(piece, ranges)) == "".join(part.text for part in piece)


@settings(max_examples=200)
@given(removed=LINES, added=LINES)
def test_every_line_stands_in_its_own_place_once(removed: list[str], added: list[str]) -> None:
    rows = words.aligned(removed, added)
    assert [i for i, _ in rows if i is not None] == list(range(len(removed)))
    assert [j for _, j in rows if j is not None] == list(range(len(added)))
    assert (None, None) not in rows


def test_lines_that_are_alike_stand_opposite_each_other() -> None:
    removed = ["  float sum = 0.0f;", "  for (int c = 0; c < n; ++c) sum += x[c];"]
    added = ["  float const first = x[0];", "  // the rest", "  for (int c = 1; c < n; ++c) sum += x[c];"]
    assert (1, 2) in words.aligned(removed, added)


@settings(max_examples=100)
@given(left=LINES, right=LINES)
def test_both_sides_are_whole_in_every_picture(left: list[str], right: list[str]) -> None:
    a, b = "\n".join(left) + "\n", "\n".join(right) + "\n"
    assume(a != b)  # equal texts are folded away
    rows = diff.rows(a, b, context=100)
    assert [r.left for r in rows if r.left is not None] == list(range(len(diff.plain_lines(a))))
    assert [r.right for r in rows if r.right is not None] == list(range(len(diff.plain_lines(b))))


def test_a_hot_line_is_not_folded_away_and_says_why() -> None:
    cold = code_tables.inline(KERNEL, ONE_PASS, code_tables.Notes())
    assert "block_reduce(float value" not in _unfolded(cold)
    assert "block_reduce(float value" in _text(cold)
    hot = code_tables.inline(
        KERNEL, ONE_PASS, code_tables.Notes(heat={24: code_tables.Heat(0.25, "10 of 40 warp samples")})
    )
    assert "25 %" in hot
    assert "10 of 40 warp samples" in hot
    assert "block_reduce(float value" in _unfolded(hot)


@pytest.mark.parametrize("draw", ["inline", "side_by_side"])
def test_the_plan_is_folded_and_said_in_words_unless_it_matters(draw: str) -> None:
    drawn = getattr(code_tables, draw)
    wider = KERNEL.replace("default = 256", "default = 512")
    change = drawn(KERNEL, wider.replace("c < cols", "c <= cols"), code_tables.Notes())
    assert "launch plan (hunk 1): block 256 → 512" in _text(change)
    assert "BLOCK = {" not in _unfolded(change)
    assert "c <= cols" in _unfolded(change)
    assert "BLOCK = {" in _unfolded(drawn(KERNEL, wider, code_tables.Notes())), "nothing else changed"
    said = drawn(KERNEL, wider + "// more", code_tables.Notes({9: ("no such value",)}))
    assert "no such value" in _unfolded(said)
    same = drawn(KERNEL, KERNEL + "// more", code_tables.Notes())
    assert "launch plan, unchanged: softmax, grid rows, block 256, BLOCK 256" in _text(same)


def test_hunks_have_the_numbers_that_keep_hunks_gives_them() -> None:
    for draw in (code_tables.inline, code_tables.side_by_side):
        table = draw(KERNEL, VECTORS, code_tables.Notes())
        numbers = [int(number) for number in re.findall(r'data-hunk="(\d+)"', table)]
        assert numbers == [hunk.number for hunk in hunks.split(KERNEL, VECTORS)]


@settings(max_examples=100)
@given(left=LINES, right=LINES)
def test_parts_hold_every_row_once(left: list[str], right: list[str]) -> None:
    a, b = "\n".join(left) + "\n", "\n".join(right) + "\n"
    assert tuple(row for part in diff.parts(a, b, context=1) for row in part.rows) == diff.aligned(a, b)


def test_markup_in_a_source_is_text_in_every_picture() -> None:
    source = KERNEL + f"// {HOSTILE}\n"
    notes = code_tables.Notes({3: (HOSTILE,)}, {4: code_tables.Heat(0.5, HOSTILE)})
    for picture in (
        code_tables.plain(source, notes),
        code_tables.inline(KERNEL, source, notes),
        code_tables.side_by_side(KERNEL, source, notes),
    ):
        assert "<img" not in picture
        assert "&lt;img" in picture
