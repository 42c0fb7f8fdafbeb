"""Say what the page measures, in the words of its figures."""

from __future__ import annotations

from pages.components.shared.texts import heading, quiet

WORDS = (
    "A batch goes through three stages: preparing (threads sample neighbours and slice their features), copying, "
    "computing. Pipelined, the stages of different batches overlap.",
    "P is the epoch over its longest stage: 1.00 means that everything else is hidden behind it.",
    "C is the epoch over computing alone, with batches that lie ready.",
    "K is the epoch with PyTorch's best aggregation over the epoch with a plugged kernel. Amdahl's bound "
    "says how much any kernel could give.",
)


def render_words() -> None:
    """Draw the words."""
    heading("How to read it")
    for words in WORDS:
        quiet(words)
