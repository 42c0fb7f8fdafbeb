"""How long tests wait.

Whatever a test waits for is asked for again and again until it is there: a busy machine may take many times as long as
a quiet one, and fails no test by that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 90.0
"""For whatever happens at all."""
SOON_S = 15.0
"""For what takes a second at most on a quiet machine, where something else would end it later: that takes longer."""
LONGEST_PAUSE_S = 0.2
"""Asking costs processor time that what is waited for needs: of a page, its whole text is asked for."""


def wait_until(holds: Callable[[], object], what: object = "what was waited for", seconds: float = PATIENCE_S) -> None:
    """Ask until it holds.

    Raises:
        AssertionError: it did not within `seconds`; a callable `what` is asked then.
    """
    deadline, pause_s = time.monotonic() + seconds, 0.01
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)
