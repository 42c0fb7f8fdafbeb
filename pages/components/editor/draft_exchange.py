"""The server's half of the handshake with a code editor (the browser's is `assets/editor/src/handshake.js`).

1. A tab's visit to the editor has a name; every text it sends is numbered and names the version it was typed upon.
2. A text is kept when the draft is still that version, or the one this tab has kept last; else it is refused and the
   tab is told what the draft is now. So neither an old text nor another tab's is lost without being asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from cutegen_core.records.candidate import content_key
from cutegen_core.trajectory.store import Draft, Store


@dataclass
class Visit:
    """One tab's stay in the editor.

    Attributes:
        opening: its name; a tab that is loaded again gets a new one.
        ack: number of the last text this server has seen.
        refused: whether that text was not kept because the draft had been changed elsewhere.
        own: version of the last text kept from this tab.
        drawn: version the tab was last drawn with.
        ran: version of the text that was last run from here.
    """

    opening: str = field(default_factory=lambda: uuid4().hex)
    ack: int = 0
    refused: bool = False
    own: str = ""
    drawn: str = ""
    ran: str = ""


@dataclass(frozen=True)
class Message:
    """A text from the browser; `parent` is the version it was typed upon."""

    opening: str
    seq: int
    parent: str
    text: str


def read_message(sent: object) -> Message | None:
    """What a browser sent, if it has the form of a message. Lone surrogates, which nothing can store, become "?"."""
    if not isinstance(sent, dict):
        return None
    opening, seq, parent, text = (sent.get(name) for name in ("opening", "seq", "parent", "text"))
    if not (isinstance(opening, str) and isinstance(seq, int) and isinstance(parent, str) and isinstance(text, str)):
        return None
    return Message(opening, seq, parent, text.encode(errors="replace").decode())


def take(store: Store, session: str, base: str, visit: Visit, message: Message) -> bool:
    """Keeps the text as the draft if that loses nothing. False for a message that is not new to this visit."""
    if message.opening != visit.opening or message.seq <= visit.ack:
        return False
    visit.ack = message.seq
    visit.refused = not _kept(store, session, Draft(base, message.text), visit, message.parent)
    if not visit.refused:
        visit.own = content_key(message.text)
    return True


def _kept(store: Store, session: str, new: Draft, visit: Visit, parent: str) -> bool:
    current = store.draft(session)
    if current == new:
        return True
    if current is None:
        # Run or discarded, and typing went on; a repetition of what was run is not typing.
        if content_key(new.text) != visit.ran:
            store.save_draft(session, new)
        return True
    if current.base != new.base or content_key(current.text) not in (parent, visit.own):
        return False
    return store.replace_draft(session, current, new)
