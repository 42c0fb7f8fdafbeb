"""Count tokens: what a call used, and what a text takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_LETTERS_PER_TOKEN = 3.5
_OTHER_BYTES_PER_TOKEN = 2


@dataclass(frozen=True)
class TokenUsage:
    """Tokens that a call used.

    Attributes:
        estimated: the server gave no numbers, or the call failed; the numbers are from `estimate_tokens`.
        cached_tokens: those of the prompt that the server had kept from an earlier call.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    cached_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


NOTHING_USED = TokenUsage()


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer: one per 3.5 ASCII characters (code) or 2 bytes of others."""
    letters = sum(1 for letter in text if letter < "\x80") if not text.isascii() else len(text)
    others = len(text.encode("utf-8", "replace")) - letters
    return math.ceil(letters / _LETTERS_PER_TOKEN + others / _OTHER_BYTES_PER_TOKEN)
