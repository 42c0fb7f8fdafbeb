"""Wait until a page is drawn and stays as it is, so that a picture can be taken."""

from __future__ import annotations

from playwright.sync_api import Page

PATIENCE_MS = 60_000
QUIET_MS = 700
"""Nothing may change for so long before a picture is taken; the page polls every half second."""
_QUIET = """
([quiet, patience]) => new Promise((resolve, reject) => {
  const begin = performance.now();
  let last = begin;
  const watch = new MutationObserver(() => { last = performance.now(); });
  watch.observe(document.body, { subtree: true, childList: true });
  const look = () => {
    const now = performance.now(), busy = document.querySelector("[data-stale=true], [data-testid=stSkeleton]");
    if (!busy && now - last > quiet) { watch.disconnect(); resolve(); }
    else if (now - begin > patience) reject(new Error("the page does not come to rest"));
    else setTimeout(look, 50);
  };
  look();
})
"""


def settle(page: Page) -> None:
    """Wait until the page is drawn and stays as it is."""
    page.wait_for_selector(".cg-header, .cg-heading, .cg-title, .pr-slide", timeout=PATIENCE_MS)
    page.evaluate(_QUIET, [QUIET_MS, PATIENCE_MS])
