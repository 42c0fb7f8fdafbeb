"""Exchange drafts with a code editor: the server's half (the browser's is `assets/editor/src/handshake.js`).

1. A tab's visit to the editor has a name; every text it sends has a number and names the versions it was typed upon:
   the last one the tab knows to be saved, and those it has sent since.
2. A text is kept when the draft is one of these. Otherwise it is refused and the tab gets the present draft, and the
   number of its last text that was kept: both have grown from that one. The tab joins the two where they have changed
   different lines, and else the user decides which text to lose.
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
        kept: number of the last text that became the draft; smaller than `ack` where the draft was changed elsewhere.
        drawn: version the tab was last drawn with.
        ran: version of the text that was last run from here.
    """

    opening: str = field(default_factory=lambda: uuid4().hex)
    ack: int = 0
    kept: int = 0
    drawn: str = ""
    ran: str = ""


@dataclass(frozen=True)
class DraftMessage:
    """A text from the browser; `upon` are the versions it was typed upon."""

    opening: str
    seq: int
    upon: tuple[str, ...]
    text: str


def read_message(sent: object) -> DraftMessage | None:
    """Read a browser's message; None for anything else. Lone surrogates, which cannot be stored, become "?"."""
    if not isinstance(sent, dict):
        return None
    opening, seq, upon, text = (sent.get(name) for name in ("opening", "seq", "upon", "text"))
    if not (isinstance(opening, str) and isinstance(seq, int) and isinstance(upon, list) and isinstance(text, str)):
        return None
    return DraftMessage(opening, seq, tuple(map(str, upon)), text.encode(errors="replace").decode())


def take(store: Store, name: str, base: str, visit: Visit, message: DraftMessage) -> bool:
    """Keep the text as the draft if that loses nothing; return False for a message that this visit has seen."""
    if message.opening != visit.opening or message.seq <= visit.ack:
        return False
    visit.ack = message.seq
    if _keeps(store, name, Draft(base, message.text), visit, message.upon):
        visit.kept = message.seq
    return True


def _keeps(store: Store, name: str, new: Draft, visit: Visit, upon: tuple[str, ...]) -> bool:
    current = store.draft(name)
    if current == new:
        return True
    if current is None:
        # Run or discarded while typing went on; a repetition of the run text is not typing.
        if content_key(new.text) != visit.ran:
            store.save_draft(name, new)
        return True
    return content_key(current.text) in upon and store.replace_draft(name, current, new)
