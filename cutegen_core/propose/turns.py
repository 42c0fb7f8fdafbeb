"""Write a conversation as one text, and read its messages back: prompts are stored, shown and edited as texts.

A text without the first line below is one message of the user. Otherwise a line stands before each message and names
its author. The line carries a digest of the first message, so no text that a message quotes can hold it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Speaker = Literal["user", "assistant"]
_HEADING = 'A conversation; a line that begins with "==== {}" stands before each message.'
_HEAD = re.compile(_HEADING.replace(".", r"\.").format("([0-9a-f]{16})") + "\n")


class Turn(NamedTuple):
    """One message of a conversation."""

    speaker: Speaker
    text: str


def turns(prompt: str) -> tuple[Turn, ...]:
    """Return the messages of a prompt, in order; the last one is the user's, unless a person edited the text."""
    head = _HEAD.match(prompt)
    if head is None:
        return (Turn("user", prompt),)
    _, *parts = re.split(rf"\n==== {head[1]} (user|assistant)\n", prompt)
    speakers: Iterator[Speaker] = ("user" if who == "user" else "assistant" for who in parts[::2])
    found = map(Turn, speakers, parts[1::2])
    return tuple(found) or (Turn("user", prompt),)


def behind(prompt: str, reply: str, message: str) -> str:
    """Return the conversation that goes on from a prompt and its reply with another message of the user."""
    head = _HEAD.match(prompt)
    digest = head[1] if head else hashlib.sha256(prompt.encode()).hexdigest()[:16]
    begun = prompt if head else f"{_HEADING.format(digest)}\n{_turn(digest, 'user', prompt)}"
    return f"{begun}{_turn(digest, 'assistant', reply)}{_turn(digest, 'user', message)}"


def shared(one: str, other: str) -> str:
    """Return the text that both begin with: what a server keeps of a prompt."""
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(differ, min(len(one), len(other)))]


def _turn(digest: str, speaker: Speaker, text: str) -> str:
    return f"\n==== {digest} {speaker}\n{text}"
