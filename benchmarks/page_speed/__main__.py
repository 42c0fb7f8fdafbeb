"""Every speed of the pages that is promised, in one run: `python -m benchmarks.page_speed [--only PART ... [--keep]]`.

first_picture   a browser that knows nothing of the application, until a fresh server's start page can be used
page_changes    every page to every other, by clicks in the navigation
decisions       every kind of decision, until it is answered and its effect can be seen, here and in another tab
long_session    a session of 500 timed steps, opened from the start page and by its address
viewers         the engine's time for a step, with and without ten viewers, in turns
many_sessions   300 sessions, one of 3,000 steps: the start page of a cold server, `cutegen sessions`, and the fold
under_load      decisions, and an address in a fresh browser, while two other sessions compile

Takes about ten minutes; nothing else should run on the machine: what did is written beside each part as its load. Times
begin at the browser's own input event (or navigation) and end with the first frame that shows what is waited for. The
trials' caches are warm, as in use. `--keep` puts the parts that were measured into the result file.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.conditions import replace_parts, write
from benchmarks.page_speed import windows
from benchmarks.page_speed.changes import page_changes
from benchmarks.page_speed.decisions import decisions
from benchmarks.page_speed.load import under_load
from benchmarks.page_speed.many import ENDED, fill, many_sessions
from benchmarks.page_speed.opening import first_picture, long_session
from benchmarks.page_speed.viewers import viewers
from cutegen_core.trajectory.store import Store
from tests.pages.gpu_stories import gpu_story, long_gpu_story
from tests.pages.stories import softmax_story
from tests.serving import chromium, own_workspace, served

PARTS = ("first_picture", "page_changes", "decisions", "long_session", "viewers", "many_sessions", "under_load")
STEPS = 500
SESSIONS, STEPS_OF_THE_LONGEST = 300, 3000
TARGETS = {
    "page_changes": "worst under 1 s", "decisions": "answered under 300 ms here, under 1.5 s in another tab",
    "long_session": "under 2 s", "first_picture": "under 5 s", "viewers": "at most 25 % longer",
    "many_sessions": "script of the start page under 1 s, cutegen sessions under 0.7 s, the same time per event",
    "under_load": "decisions answered under 300 ms in their tab, the address under 5 s",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page_speed")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--keep", action="store_true", help="put these parts into the result file, each with its conditions"
    )
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for part in chosen.only:
        load = round(os.getloadavg()[0], 2)
        with own_workspace() as home:
            measured = _measure(part, home)
        found[part] = {"target": TARGETS[part], "load_before": load, **measured}
        print(part, json.dumps(found[part], indent=1), flush=True)
    if tuple(chosen.only) == PARTS:
        write("page_speed", found)
    elif chosen.keep:
        replace_parts("page_speed", found)


def _measure(part: str, home: Path) -> dict[str, Any]:
    """Run one part over a workspace of its own."""
    store = Store()
    if part == "first_picture":
        with chromium() as browser:
            return first_picture(home, browser, visits=5)
    if part == "viewers":
        with served(home) as server:
            return viewers(server.url, store, count=10, rounds=2, steps=5)
    if part == "many_sessions":
        long = fill(store, SESSIONS, STEPS_OF_THE_LONGEST)
        with chromium() as browser:
            return many_sessions(home, browser, store, long, visits=5)
    softmax_story(store)
    looked_at = gpu_story(store).session
    if part == "long_session":  # stopped, or the engine would go on with it
        long = long_gpu_story(store, STEPS).add(ENDED).session
    with served(home) as server, chromium() as browser:
        if part == "page_changes":
            with windows.tabs(browser) as [page]:
                return page_changes(page, server.url, rounds=3)
        if part == "decisions":
            return decisions(browser, server.url, store, rounds=6)
        if part == "under_load":
            return under_load(browser, server.url, store, looked_at, rounds=4, visits=5)
        return long_session(browser, server.url, long, STEPS, visits=7)


if __name__ == "__main__":
    main()
