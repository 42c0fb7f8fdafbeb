"""Times inside the browser: from an input event, or from a navigation, until what it is for can be seen.

The page is looked at once a frame; the end is the first frame after which all wanted signs can be seen. What Streamlit
keeps from the page before and marks as stale does not count.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from playwright.sync_api import Page

PATIENCE_MS = 120_000

SCRIPT = """
window.cgWatch = {
  begun: 0, answered: null, done: null, missing: null,
  arm(signs, path, event, answer) {
    this.begun = 0;
    this.answered = null;
    if (event) addEventListener(event, (e) => { this.begun = e.timeStamp; }, { capture: true, once: true });
    const all = (selector, root) => {
      const [outer, ...inner] = selector.split(' >>> ');
      const found = [...root.querySelectorAll(outer)];
      if (!inner.length) return found;
      return found.flatMap((e) => [e, ...e.querySelectorAll('*')]).filter((e) => e.shadowRoot)
        .flatMap((e) => all(inner.join(' >>> '), e.shadowRoot));
    };
    const visible = (e) => e.checkVisibility({ visibilityProperty: true })
      && !(e.getRootNode().host ?? e).closest('[data-stale="true"]');
    const shows = ([selector, words]) =>
      all(selector, document).some((e) => visible(e) && new RegExp(words, 'i').test(e.textContent));
    this.missing = () => [location.pathname, ...signs.filter((sign) => !shows(sign))].join(' ');
    this.done = new Promise((resolve) => {
      const look = () => {
        const done = location.pathname.endsWith(path) && signs.every(shows);
        if (this.answered === null && (done || (answer && shows(answer)))) {
          setTimeout(() => { this.answered ??= performance.now(); });
        }
        if (done) setTimeout(() => resolve(performance.now()));
        else requestAnimationFrame(look);
      };
      look();
    });
  },
  seen(patience) {
    return Promise.race([
      this.done.then((end) => [end - this.begun, performance.timeOrigin + end, this.answered - this.begun]),
      new Promise((_, reject) => setTimeout(() => reject(new Error(`not seen: ${this.missing()}`)), patience)),
    ]);
  },
};
"""


class Sign(NamedTuple):
    """Something that can be seen: an element, with these words in it (a regular expression, case ignored).

    ` >>> ` in the selector goes on inside a component.
    """

    selector: str
    words: str = ""


class Seen(NamedTuple):
    """`took_ms` since the event or the navigation; `at_ms` since the epoch, the same clock for every tab; `answered_ms`
    since the event, until the page answered it at all: its answer, or all signs."""

    took_ms: float
    at_ms: float
    answered_ms: float


def arm(page: Page, signs: Sequence[Sign], *, path: str = "", event: str = "click", answer: Sign | None = None) -> None:
    """Arm the clock: the next `event` starts it, the signs (on a page whose address ends with `path`) stop it.

    Args:
        answer: a sign that can come before them, and go again.
    """
    page.evaluate(f"window.cgWatch.arm(...{json.dumps([signs, path, event, answer])})")


def seen(page: Page) -> Seen:
    """Wait for the signs; an error names what did not come."""
    return Seen(*map(float, page.evaluate(f"window.cgWatch.seen({PATIENCE_MS})")))


def began_ms(page: Page) -> float:
    """Return when the event happened, in milliseconds since the epoch."""
    return float(page.evaluate("performance.timeOrigin + window.cgWatch.begun"))


def opened(page: Page, url: str, signs: Sequence[Sign]) -> float:
    """Return the milliseconds from the navigation to this address until all signs can be seen."""
    page.goto(url, wait_until="commit")
    arm(page, signs, event="")
    return seen(page).took_ms


def spread(times: Sequence[float]) -> dict[str, Any]:
    """Median, worst and how many."""
    return {"median_ms": round(statistics.median(times)), "worst_ms": round(max(times)), "n": len(times)}
