"""Write a conversation as one text, and read its messages back: prompts are stored, shown and edited as texts.

A text without the first line below is one message of the user. Otherwise a line stands before each message and names
its author. The line carries a digest of the first message, so no text that a message quotes can hold it.
"""

from __future__ import annotations

import hashlib
import re
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
    found = (Turn("user" if who == "user" else "assistant", text) for who, text in zip(parts[::2], parts[1::2]))
    return tuple(found) or (Turn("user", prompt),)


def behind(prompt: str, reply: str, message: str) -> str:
    """Return the conversation that goes on from a prompt and its reply with another message of the user."""
    head = _HEAD.match(prompt)
    digest = head[1] if head else hashlib.sha256(prompt.encode()).hexdigest()[:16]
    begun = prompt if head else f"{_HEADING.format(digest)}\n{_turn(digest, 'user', prompt)}"
    return f"{begun}{_turn(digest, 'assistant', reply)}{_turn(digest, 'user', message)}"


def _turn(digest: str, speaker: Speaker, text: str) -> str:
    return f"\n==== {digest} {speaker}\n{text}"
