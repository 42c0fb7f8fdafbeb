"""Keep what is typed into a field through a reload, also before the field is left; the browser's tab keeps it.

The script `kept_typing.js` does that for every text field of a page but those for secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    code = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    return st.components.v2.component("cutegen-kept-typing", js=code, isolate_styles=False)


def keep_typing() -> None:
    """Draw the invisible component; every page begins with it."""
    _component()(key="kept-typing")
