"""Give every page what only the browser can do: keep unsent typing through a reload, keep keys to one popup, and make
one history entry of a switch of pages.

`kept_typing.js`, `popup_keys.js` and `one_entry.js` do it for the whole page; one invisible component brings them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

_PARTS = ("kept_typing.js", "popup_keys.js", "one_entry.js")
_START = "export default function () { keepTyping(); keepKeysToPopups(); keepOneEntry(); }\n"


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    parts = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _PARTS)
    return st.components.v2.component("cutegen-browser-side", js="\n".join((*parts, _START)), isolate_styles=False)


def render_browser_side() -> None:
    """Draw the invisible component; every page begins with it."""
    _component()(key="browser-side")
