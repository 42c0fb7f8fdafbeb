"""What is shown hides nothing: not by being invisible, not by moving other text about."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cutegen_core.machine.visible_text import escape_html, show_hidden
from tests.hostile_strings import STRINGS, SURROGATE

HIDING = ("Cc", "Cf", "Cs", "Zl", "Zp")
DRAWN = set(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))
"""Signs that span the numbers after them: of a hidden category, and drawn."""


@given(st.text(st.characters()) | st.sampled_from((*STRINGS, SURROGATE)))
def test_no_character_hides(text: str) -> None:
    shown = show_hidden(text)
    assert not {c for c in shown if unicodedata.category(c) in HIDING} - {"\n", "\t"} - DRAWN
    assert show_hidden(shown) == shown
    shown.encode()


def test_every_hidden_character_has_a_stand_in() -> None:
    hidden = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) in HIDING and c not in "\n\t"]
    assert {c for c in hidden if show_hidden(c) == c} == DRAWN


def test_stand_ins_name_what_they_stand_for() -> None:
    assert show_hidden("a\x1b[31m\r\nb\tc\rd") == "a⟨ESC⟩[31m\nb\tc⟨CR⟩d"
    assert (
        show_hidden("\u202e \u200b \x7f \x85 \ud83d \U000e0041")
        == "⟨U+202E⟩ ⟨U+200B⟩ ⟨U+007F⟩ ⟨U+0085⟩ ⟨U+D83D⟩ ⟨U+E0041⟩"
    )
    assert show_hidden("naïve 日本 مرحبا ⚠️ 🏳") == "naïve 日本 مرحبا ⚠️ 🏳"


def test_text_for_html() -> None:
    assert escape_html("<a title=\"'\x00'\">&amp;") == "&lt;a title=&quot;&#x27;⟨NUL⟩&#x27;&quot;&gt;&amp;amp;"
