"""Exchange drafts with a code editor: the server's half (the browser's is `assets/editor/src/handshake.js`).

1. A tab's visit to the editor has a name; every text it sends has a number and names the version it was typed upon.
2. A text is kept when the draft is still that version, or the last one kept from this tab. Otherwise it is refused and
   the tab gets the present draft, so that the user decides which text to lose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from cutegen_core.records.candidate import content_key
from cutegen_core.trajectory.store import Draft, Store


@dataclass
class Visit:
    """One tab's visit to the editor.

    Attributes:
        opening: its name; a reloaded tab gets a new one.
        ack: number of the last text that this server has received.
        refused: whether that text was refused because the draft had been changed elsewhere.
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
class DraftMessage:
    """A text from the browser; `parent` is the version it was typed upon."""

    opening: str
    seq: int
    parent: str
    text: str


def read_message(sent: object) -> DraftMessage | None:
    """Read a browser's message; None for anything else. Lone surrogates, which cannot be stored, become "?"."""
    if not isinstance(sent, dict):
        return None
    opening, seq, parent, text = (sent.get(name) for name in ("opening", "seq", "parent", "text"))
    if not (isinstance(opening, str) and isinstance(seq, int) and isinstance(parent, str) and isinstance(text, str)):
        return None
    return DraftMessage(opening, seq, parent, text.encode(errors="replace").decode())


def take(store: Store, session: str, base: str, visit: Visit, message: DraftMessage) -> bool:
    """Keep the text as the draft if that loses nothing; return False for a message that this visit has seen."""
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
        # Run or discarded while typing went on; a repetition of the run text is not typing.
        if content_key(new.text) != visit.ran:
            store.save_draft(session, new)
        return True
    if current.base != new.base or content_key(current.text) not in (parent, visit.own):
        return False
    return store.replace_draft(session, current, new)
