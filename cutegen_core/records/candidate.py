"""A candidate: one immutable, content-addressed version of a kernel file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class Author(StrEnum):
    MODEL = "model"
    PERSON = "person"
    PLAYBOOK = "playbook"
    IMPORT = "import"


def content_key(data: str | bytes) -> str:
    """SHA-256 of the bytes (UTF-8 of a text), in hexadecimal: the one address everything is stored under."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


@dataclass(frozen=True)
class Candidate:
    """One source version.

    Attributes:
        source: the kernel file's text.
        parent: key of the candidate it was made from, None for a seed.
        idea: what was tried, in one line, for the timeline.
    """

    source: str
    author: Author
    parent: str | None = None
    idea: str = ""

    @property
    def key(self) -> str:
        return content_key(self.source)
