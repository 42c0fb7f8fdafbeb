"""Read a reply that should change a kernel: what it proposes, or why it is of no use."""

from __future__ import annotations

import re

from cutegen_core.kernel.locked_regions import locked_regions
from cutegen_core.propose.model_error import ModelErrorKind
from cutegen_core.propose.port import Call, ProposalRequest, Unparsed
from cutegen_core.propose.replies.parsing import ParsedReply, UnparsedReply, parse_reply
from cutegen_core.propose.replies.patching import written
from cutegen_core.propose.replies.reply_text import extract_answer
from cutegen_core.records.candidate import content_key
from cutegen_core.records.wording import CAREFUL

_TAIL_CHARACTERS = 40
_CUT = ("length", "cut", ModelErrorKind.TRUNCATED_STREAM, ModelErrorKind.BAD_ANSWER)
_CUT_OFF = "The reply was cut off (its token limit, or a connection that broke)"
_LONGEST_IDEA = 160

# Each of these looks at a line once: a reply of a million line ends costs milliseconds.
_IDEA = re.compile(r"^[ \t*_#>-]*idea[ \t*_]*:(.*[^\s*_`].*)$", re.IGNORECASE | re.MULTILINE)
_IDEA_IN_FILE = re.compile(r'^[ \t]*idea[ \t]*=[ \t]*"([^"\n]{1,160})"', re.MULTILINE)
_VALUES = re.compile(r"^([ \t]*\w+[ \t]*=[ \t]*)(?:\{[^\n]*default[^\n]*\}|-?[\d.]+)[ \t]*$", re.MULTILINE)
_PARAMS = re.compile(r"^[ \t]*\[params\][^\n]*\n(?:[ \t]*[^\[\s][^\n]*\n|[ \t]*\n)*", re.MULTILINE)
"""The table of a launch plan, and a declaration in it."""
_DONE = re.compile(r"^[ \t*_`>]*DONE\b[*_ \t]*:?(.*)$", re.MULTILINE)


def read_kernel(call: Call, request: ProposalRequest) -> ParsedReply | Unparsed:
    """Return the kernel file of a reply that changes the request's base, or why there is none that could be tried.

    The blocks of the step's earlier replies that fit count as applied.
    """
    base = request.base.source if request.base else None
    parsed = _parse(call, request, base)
    if isinstance(parsed, UnparsedReply):
        cut = f" {_CUT_OFF}." if call.finish in _CUT else ""
        kept = "\n".join(map(written, parsed.misfits)) if parsed.partial else ""
        return Unparsed(call.reply, parsed.reason + cut, parsed.patch_failed, idea_of(request), misfits=kept)
    reason = _objection(parsed, call, request, base)
    return Unparsed(call.reply, reason, idea=idea_of(request)) if reason else parsed


def _objection(parsed: ParsedReply, call: Call, request: ProposalRequest, base: str | None) -> str:
    """Return why a kernel file is not tried, "" if it is."""
    if call.finish in _CUT and call.reply.rstrip().endswith(parsed.source.rstrip()[-_TAIL_CHARACTERS:]):
        return f"{_CUT_OFF}, in the middle of the kernel file"
    if base is not None and parsed.source.strip() == base.strip():
        return "the reply is the same code again: nothing was changed"
    kept = locked_regions(parsed.source)
    changed = [region for region in locked_regions(base or "") if region not in kept]
    if changed:
        return f"the reply changes a locked region:\n{changed[0]}"
    key = content_key(parsed.source)
    before = [a for a in request.attempts if a.candidate == key and not request.instruction]
    return f"this very kernel was tried in step {before[-1].step}: {before[-1].outcome}" if before else ""


def changes_defaults_only(before: str, after: str) -> bool:
    """Return whether two kernel files differ in nothing but declared values, and the idea's line."""
    return before != after and _without_values(before) == _without_values(after)


def _without_values(source: str) -> list[str]:
    head, end, code = source.partition("*/")
    plan = _PARAMS.sub(lambda table: _VALUES.sub(r"\1", table[0]), _IDEA_IN_FILE.sub("", head))
    return [line.strip() for line in f"{plan}{end}{code}".splitlines() if line.strip()]


def was_cut(call: Call) -> bool:
    """Return whether the reply ended before its end."""
    return call.finish in _CUT


def idea_of(request: ProposalRequest) -> str:
    """Return the idea that the step's last reply with one names, "" if none does."""
    return next((idea for call in reversed(request.calls) if (idea := find_idea(call.reply))), "")


def _parse(call: Call, request: ProposalRequest, base: str | None) -> ParsedReply | UnparsedReply:
    """Parse the reply against the base as the earlier replies' fitting blocks left it, else against the base itself."""
    current = base
    for earlier in request.calls[: request.calls.index(call)] if call in request.calls else ():
        found = parse_reply(earlier.reply, current)
        current = found.partial or current if isinstance(found, UnparsedReply) else current
    parsed = parse_reply(call.reply, current)
    if isinstance(parsed, UnparsedReply) and current != base:
        again = parse_reply(call.reply, base)
        return again if isinstance(again, ParsedReply) else parsed
    return parsed


def plan_text(parsed: ParsedReply) -> str:
    """Return what a reply says of its change, with the warnings about its text."""
    return "\n".join([parsed.plan, *(f"{CAREFUL}{warning}" for warning in parsed.warnings)]).strip()


def find_idea(plan: str, source: str = "") -> str:
    """Return what a reply says it tries: its Idea line, else the kernel file's own `idea`."""
    named = _IDEA.search(plan) or _IDEA_IN_FILE.search(source)
    line = "".join(letter for letter in named[1] if letter.isprintable()) if named else ""
    return line.strip(" *_`")[:_LONGEST_IDEA]


def first_words(idea: str) -> str:
    """Return the name that an idea begins with, as a word to compare: "128-bit Loads: half2" -> "128-bit-loads"."""
    head = re.split(r"[:.(]| - ", idea.strip().lower(), maxsplit=1)[0].strip(" `*\"'")
    return re.sub(r"[^a-z0-9]+", "-", head).strip("-")


def find_done(reply: str) -> str | None:
    """Return the reason of a reply that says DONE, None where it does not."""
    done = _DONE.search(extract_answer(reply) or "")
    return (done[1].strip(" `*_") or "it gives no reason") if done else None
