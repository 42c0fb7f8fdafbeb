"""Go on with the conversation in which the model wrote the current kernel, where that costs less than a fresh prompt.

A fresh prompt holds the whole kernel. Behind the exchange that wrote it, the next question needs no kernel, and the
server keeps what stood there before. In prices of a new token, with the price c of a kept one:

    going on = c x former prompt + (c where the server keeps replies, else 1) x its reply + message
    fresh    = c x what the new prompt shares with the conversation's first + the rest of the new prompt

The model must know its kernel from what it was shown and from its own changes to it. So the kernel is shown whole again
after a few changes, after blocks that did not fit, and where anybody else wrote it (`session.conversation`).
"""

from __future__ import annotations

from itertools import takewhile

from cutegen_core.propose.port import Former, ProposalRequest
from cutegen_core.propose.prompting.rendering import Prompt
from cutegen_core.propose.replies.parsing import ParsedReply, parse_reply
from cutegen_core.propose.replies.reply_text import spoken
from cutegen_core.propose.tokens import estimate_tokens
from cutegen_core.propose.turns import Turn, behind, shared, turns
from cutegen_core.records.decision import Conversation

MOST_REPLIES = 6
"""Replies in a conversation: what was said long ago distracts from the question."""
MOST_CHANGES = 3
"""Replies since the kernel stood somewhere whole: a SEARCH text is copied from what the model remembers of it."""
CONTEXT_SHARE = 0.5
"""Of the model's context, that a conversation may fill: an answer asked again is longer, and models read long prompts
worse."""


def cheaper(fresh: Prompt, message: str, request: ProposalRequest) -> Prompt:
    """Return the message behind the former exchange where that may be and costs less, else the fresh prompt."""
    former = request.former
    if former is None:
        return fresh
    reply = spoken(former.reply)
    text = behind(former.prompt, reply, message)
    tokens = estimate_tokens(text)
    too_long = request.context_tokens and tokens > CONTEXT_SHARE * request.context_tokens
    if too_long or not _may_go_on(turns(text)) or _price(former, reply, message) >= _price_afresh(fresh, former):
        return fresh
    return Prompt(text, tokens, ())


def _may_go_on(said: tuple[Turn, ...]) -> bool:
    replies = [turn.text for turn in said if turn.speaker == "assistant"]
    since_whole = list(takewhile(_is_no_file, reversed(replies)))
    return len(replies) <= MOST_REPLIES and len(since_whole) <= MOST_CHANGES


def _is_no_file(reply: str) -> bool:
    return not isinstance(parse_reply(reply, None), ParsedReply)


def _price(former: Former, reply: str, message: str) -> float:
    kept = former.cached_price
    of_reply = kept if former.kept is Conversation.REPLIES else 1.0
    return kept * estimate_tokens(former.prompt) + of_reply * estimate_tokens(reply) + estimate_tokens(message)


def _price_afresh(fresh: Prompt, former: Former) -> float:
    kept = estimate_tokens(shared(fresh.text, turns(former.prompt)[0].text))
    return former.cached_price * kept + fresh.tokens - kept
