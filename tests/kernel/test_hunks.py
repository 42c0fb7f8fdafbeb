"""Taking a change apart and putting some of it back together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen_core.kernel import hunks
from tests.pages.stories import KERNEL, ONE_PASS

TEXTS = st.lists(st.sampled_from(["a", "b", "}", "", "  x = 1;", "\r"]), max_size=12).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join([*lines, ""])])
)


@settings(max_examples=300)
@given(old=TEXTS, new=TEXTS)
def test_all_hunks_give_the_new_text_and_none_the_old(old: str, new: str) -> None:
    found = hunks.split(old, new)
    everything = {hunk.number for hunk in found}
    assert hunks.apply(old, found, everything) == new
    assert hunks.apply(old, found, ()) == old
    assert bool(found) == (old != new)


@settings(max_examples=200)
@given(old=TEXTS, new=TEXTS, data=st.data())
def test_a_subset_and_its_rest_lead_to_the_new_text(old: str, new: str, data: st.DataObject) -> None:
    found = hunks.split(old, new)
    kept = {h.number for h in found if data.draw(st.booleans())}
    half = hunks.apply(old, found, kept)
    removed = sum(h.removed for h in found if h.number in kept)
    added = sum(h.added for h in found if h.number in kept)
    assert half.count("\n") - old.count("\n") in {added - removed + slack for slack in (-1, 0, 1)}
    rest = hunks.split(half, new)
    assert hunks.apply(half, rest, {h.number for h in rest}) == new


def test_a_kernels_change_has_the_hunks_a_person_sees() -> None:
    found = hunks.split(KERNEL, ONE_PASS)
    assert [(h.added, h.removed) for h in found] == [(1, 1), (6, 1)]
    assert found[1].title == "line 41, +6 -1"
    only_the_loop = hunks.apply(KERNEL, found, {2})
    assert 'idea = "one block a row, three passes"' in only_the_loop
    assert "float const higher" in only_the_loop


def test_changes_one_line_apart_are_one_hunk() -> None:
    found = hunks.split("a\nb\nc\nd\ne\nf\n", "A\nb\nC\nd\ne\nF\n")
    assert [(h.old, h.new) for h in found] == [
        (("a\n", "b\n", "c\n"), ("A\n", "b\n", "C\n")),
        (("f\n",), ("F\n",)),
    ]


@pytest.mark.parametrize(
    ("text", "kept", "message"),
    [("a\nb\n", {9}, "there is no hunk 9; there are 1"), ("other\n", {1}, "hunk 1 is not of this text")],
)
def test_what_does_not_fit_is_refused(text: str, kept: set[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hunks.apply(text, hunks.split("a\nb\n", "a\nc\n"), kept)
