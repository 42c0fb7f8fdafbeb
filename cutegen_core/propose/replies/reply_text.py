"""Extract the answer from a reply (line ends, BOM, thinking, JSON, tags), and warn about misleading characters."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator

_THINK_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THINK_START = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_ANSWER_MARKS = ("/* cutegen", "/*cutegen", "<<<<< SEARCH", "<<<<<SEARCH")
_MISLEADING = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\U000e0000-\U000e007f]")
_ESCAPED = re.compile(r"^[ \t]*(?:#[ \t]*include[ \t]*&lt;|(?:&lt;){5,9} ?SEARCH\b)", re.MULTILINE)
"""Code that was copied as HTML: no line of C++ begins so."""
_TAGGED = re.compile(
    r"^[ \t]*(?:<[^<>\n]{1,200}>)*<(?P<tag>[A-Za-z]\w{0,40}|!\[CDATA\[)[^<>\n]{0,200}?>?\s{0,9}"
    r"(?=/\*[ \t]*cutegen\b)",
    re.MULTILINE,
)
"""Tags in front of a kernel file: of HTML, or of a call of a tool."""
_CLOSING = re.compile(r"(?:\s*</[A-Za-z]\w{0,40}>){1,9}")
_TOOL = re.compile(r"<(?P<tag>[A-Za-z]\w{0,40})>\s*(?=[\[{])")
_SHOWN_MAX = 5
_JSON_DEPTH = 6


def spoken(reply: str) -> str:
    """Return the reply as it stands in a conversation: without thinking, which a server drops from earlier replies."""
    ends = list(_THINK_END.finditer(reply))
    return reply[ends[-1].end() :].strip() if ends else reply.strip()


def extract_answer(reply: str) -> str | None:
    """Return the part of the reply that may hold an answer, with plain line ends; None if it is all thinking."""
    text = reply.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    ends = list(_THINK_END.finditer(text))
    if ends:
        text = text[ends[-1].end() :]
    elif _THINK_START.match(text):
        return None
    text = _unwrap_json(text) or text
    text = html.unescape(text) if _ESCAPED.search(text) else text
    return _fence_tagged(text)


def _fence_tagged(text: str) -> str:
    """Return the text with a fence in place of the tags around a kernel file."""
    parts, end = [], 0
    for found in _TAGGED.finditer(text):
        closing = "]]>" if found["tag"].startswith("!") else f"</{found['tag']}>"
        closed = text.find(closing, found.end())
        if closed >= 0 and found.start() >= end:
            parts += [text[end : found.start()], "```\n", text[found.end() : closed].rstrip("\n"), "\n```\n"]
            end = closed + len(closing)
            end = rest.end() if (rest := _CLOSING.match(text, end)) else end
    return "".join([*parts, text[end:]])


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
    """Return the text inside a reply that is one JSON document, in a fence, in a tag or bare; "" for other replies."""
    stripped = text.strip()
    if (tool := _TOOL.match(stripped)) and stripped.endswith(f"</{tool['tag']}>"):
        stripped = stripped[tool.end() : -len(tool["tag"]) - 3].strip()
    if stripped.startswith(("```json", "~~~json")):
        stripped = stripped[len("```json") :].strip("`~ \n\t")
    texts = list(_strings(_document(stripped), _JSON_DEPTH))
    answers = [t for t in texts if any(mark in t for mark in _ANSWER_MARKS)]
    if not answers:
        return ""
    prose = [t for t in texts if t not in answers and " " in t]  # single words are names of tools and files
    return "\n\n".join([*prose, *answers]).replace("\r\n", "\n")


def _document(text: str) -> object:
    """Return the object or list that a text is in JSON; None if it is none."""
    if (text[:1], text[-1:]) not in (("{", "}"), ("[", "]")):
        return None
    try:
        found: object = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return found


def _strings(value: object, depth: int) -> Iterator[str]:
    """Yield every text in a JSON value; the arguments of a tool's call are JSON in a text."""
    inside = _document(value.strip()) if isinstance(value, str) and depth else None
    if inside is not None:
        yield from _strings(inside, depth - 1)
    elif isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner, depth - 1)
