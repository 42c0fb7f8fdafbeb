"""Extract the answer from a reply (line ends, BOM, thinking, JSON), and warn about misleading characters."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

_THINK_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THINK_START = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_ANSWER_MARKS = ("/* cutegen", "/*cutegen", "<<<<< SEARCH", "<<<<<SEARCH")
_MISLEADING = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\U000e0000-\U000e007f]")
_SHOWN_MAX = 5
_JSON_DEPTH = 6


def extract_answer(reply: str) -> str | None:
    """Return the part of the reply that may hold an answer, with plain line ends; None if it is all thinking."""
    text = reply.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    ends = list(_THINK_END.finditer(text))
    if ends:
        text = text[ends[-1].end() :]
    elif _THINK_START.match(text):
        return None
    return _unwrap_json(text) or text


def find_odd_characters(source: str) -> tuple[str, ...]:
    """Return warnings about the first few characters that are invisible or change the direction of text."""
    warnings = []
    for found in _MISLEADING.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        name = unicodedata.name(found[0], "unnamed")
        warnings.append(f"line {line} holds U+{ord(found[0]):04X} ({name}): the code may not read as it compiles")
        if len(warnings) == _SHOWN_MAX:
            break
    return tuple(warnings)


def _unwrap_json(text: str) -> str:
    """Return the text inside a reply that is one JSON object, fenced or not; "" for other replies."""
    stripped = text.strip()
    if stripped.startswith(("```json", "~~~json")):
        stripped = stripped[len("```json") :].strip("`~ \n\t")
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return ""
    try:
        document = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return ""
    texts = list(_strings(document, _JSON_DEPTH))
    answers = [t for t in texts if any(mark in t for mark in _ANSWER_MARKS)]
    if not answers:
        return ""
    prose = [t for t in texts if t not in answers]
    return "\n\n".join([*prose, *answers]).replace("\r\n", "\n")


def _strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, depth - 1)
