"""Have Python look for garbage seldom: by default it looks after 700 new objects, a tenth of a page's time."""

import gc

NEW_OBJECTS, TIMES = 20_000, 20


def collect_seldom() -> None:
    """Look at new objects after 20 000 of them, and at older ones after 20 such looks; some MB more may be in use."""
    gc.set_threshold(NEW_OBJECTS, TIMES, TIMES)
