"""Replace every invisible or direction-changing character by a visible name.

Such characters make a source read differently from what the compiler sees (Boucher and Anderson, "Trojan Source",
2021); terminal escapes and half a surrogate pair break the program that displays them.
"""

from __future__ import annotations

import html
import re

_NAMES = (
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF",
    "VT", "FF", "CR", "SO", "SI", "DLE", "DC1", "DC2", "DC3", "DC4", "NAK",
    "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
)  # fmt: skip

# C0 except tab and newline, DEL and C1; soft hyphen, fillers, joiners and direction marks, line and paragraph
# separators, byte order mark, annotations, script-specific format controls, lone surrogates, noncharacters, tags.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def show_hidden(text: str) -> str:
    """Return the text with each hidden character named: "⟨ESC⟩", "⟨U+202E⟩" for right-to-left override.

    Newlines and tabs stay; "\\r\\n" becomes a newline.
    """
    return _HIDDEN.sub(_replace_hidden, text.replace("\r\n", "\n")) if _HIDDEN.search(text) else text


def escape_html(text: object) -> str:
    """Return the text escaped for HTML (attribute values included), hidden characters named."""
    return html.escape(show_hidden(str(text)), quote=True)


def _replace_hidden(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"⟨{_NAMES[code]}⟩" if code < len(_NAMES) else f"⟨U+{code:04X}⟩"
