"""Go on with the conversation about the current kernel, where that costs less than a prompt that shows it again.

A fresh prompt holds the whole kernel. Behind the exchange before it, the next question needs none, and the server keeps
what stood there. In prices of a new token, with the price c of one that the server kept:

    going on = c x former prompt + (c, or 1 where the server's count says that it keeps none) x its reply + message
    fresh    = c x what it shares with the conversation's first prompt + the rest of it

The model must know the kernel from what it was shown and from its own replies. So it is shown again after a few of
them, after blocks that did not fit, and where anybody else wrote it (`session.conversation`).
"""

from __future__ import annotations

from cutegen_core.propose.port import Former, ProposalRequest
from cutegen_core.propose.prompting.rendering import Prompt
from cutegen_core.propose.replies.reply_text import spoken
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.propose.turns import behind, shared, turns

MOST_REPLIES = 4
"""Replies in a conversation: a SEARCH text is copied from what the model makes of all of them."""
CONTEXT_SHARE = 0.5
"""Of the model's context, that a conversation may fill: an answer asked again is longer, and long prompts are read
worse."""


def cheaper(fresh: Prompt, message: str, request: ProposalRequest) -> Prompt:
    """Return the message behind the former exchange where that may be and costs less, else the fresh prompt."""
    former = request.former
    if former is None:
        return fresh
    text = behind(former.prompt, spoken(former.reply), message)
    tokens, said = estimate_tokens(text), turns(text)
    too_long = request.context_tokens and tokens > CONTEXT_SHARE * request.context_tokens
    if too_long or len(said) > 2 * MOST_REPLIES + 1 or _price(former, message) >= _price_afresh(fresh, former):
        return fresh
    return Prompt(text, tokens, ())


def _price(former: Former, message: str) -> float:
    kept = former.cached_price
    of_reply = kept if former.keeps_replies else 1.0
    before = kept * estimate_tokens(former.prompt) + of_reply * estimate_tokens(spoken(former.reply))
    return before + estimate_tokens(message)


def _price_afresh(fresh: Prompt, former: Former) -> float:
    kept = estimate_tokens(shared(fresh.text, turns(former.prompt)[0].text))
    return former.cached_price * kept + fresh.tokens - kept
