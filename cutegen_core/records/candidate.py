"""Records of a candidate: one immutable, content-addressed version of a kernel file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class Author(StrEnum):
    """Who wrote a candidate."""

    MODEL = "model"
    PERSON = "person"
    PLAYBOOK = "playbook"
    IMPORT = "import"


def content_key(data: str | bytes) -> str:
    """Return the SHA-256 of the bytes (UTF-8 of a text) in hexadecimal; the store addresses every blob by it."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


@dataclass(frozen=True)
class Candidate:
    """One version of a kernel file.

    Attributes:
        source: the kernel file's text.
        parent: key of the candidate that it changes, None for a seed.
        idea: the attempted change in one line, for the timeline.
    """

    source: str
    author: Author
    parent: str | None = None
    idea: str = ""

    @property
    def key(self) -> str:
        return content_key(self.source)
