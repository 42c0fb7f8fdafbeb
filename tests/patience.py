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


def wait_until(holds: Callable[[], object], what: object = "what was waited for", seconds: float = PATIENCE_S) -> None:
    """Ask until it holds.

    Raises:
        AssertionError: it did not within `seconds`; a callable `what` is asked then.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.02)
