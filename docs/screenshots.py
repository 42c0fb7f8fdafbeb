"""Make the pictures of every page, dark and light, and `docs/pages.md` that shows them: `python -m docs.screenshots`.

1. Make or open sessions in a temporary workspace (`shown_sessions`).
2. Photograph the served application (`pictures` says where); each picture becomes a PNG of at most 256 colours.
3. Write the page that shows them side by side from the same list.

Needs Chromium; fails when a picture is larger than 300 KB. The tour on top of that page is made by `docs.tour`.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from cutegen_core.machine import workspace
from docs import shown_sessions
from docs.pictures import PICTURES, Picture
from docs.settle import PATIENCE_MS, settle
from docs.shown_sessions import Shown
from tests.serving import ROOT, chromium, own_workspace, served

PORT = 8656
LARGEST_BYTES = 300_000
THEMES = ("dark", "light")
FOLDER = ROOT / "assets" / "screenshots"
PAGE = ROOT / "docs" / "pages.md"
_RENAME = """
folders => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    for (const [here, usual] of Object.entries(folders))
      walker.currentNode.data = walker.currentNode.data.replaceAll(here, usual);
}
"""
"""Shows the folders of the machine that takes the pictures at their usual places."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument("--only", nargs="*", default=[], help="names of pictures; all of them when left out")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    wanted = [p for group in PICTURES.values() for p in group if not arguments.only or p.name in arguments.only]
    with own_workspace() as home:
        made = shown_sessions.make()
        with served(home, PORT) as server, chromium() as browser:
            shoot(browser, server.url, made, wanted, arguments.output)
    PAGE.write_text("\n".join(page_lines()))
    return 0


def shoot(browser: Browser, url: str, made: Shown, wanted: Sequence[Picture], folder: Path) -> None:
    for theme in THEMES:
        context = browser.new_context(color_scheme=theme)
        for picture in wanted:
            width, height = picture.size
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": height})
            page.set_default_timeout(PATIENCE_MS)
            page.goto(url + picture.address.format(**made._asdict()))
            take(page, picture, folder / f"{picture.name}-{theme}.png")
            page.close()
        context.close()


def take(page: Page, picture: Picture, target: Path) -> None:
    settle(page)
    if picture.first is not None:
        picture.first(page)
    page.wait_for_function("n => document.querySelectorAll('.js-plotly-plot .main-svg').length >= n", arg=picture.plots)
    settle(page)
    page.evaluate(_RENAME, {sys.prefix: ".venv", str(workspace.home()): "~/.local/share/cutegen"})
    with Image.open(io.BytesIO(page.screenshot())) as taken:
        taken.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)
    size = target.stat().st_size
    print(f"{target.name}: {size // 1000} KB", flush=True)
    if size > LARGEST_BYTES:
        raise SystemExit(f"{target} is larger than {LARGEST_BYTES // 1000} KB")


def page_lines() -> Iterator[str]:
    """Write the lines of the page that shows all pictures."""
    yield "# The pages in pictures"
    yield ""
    yield (
        "Every picture is of a session that really ran, on the CPU emulator or recorded on an H200, and is made by "
        "`python -m docs.screenshots`."
    )
    yield from ("", "![A session from start to accepted, in a minute](../assets/tour.webp)")
    for heading, group in PICTURES.items():
        yield from ("", f"## {heading}")
        for picture in group:
            dark, light = (f"../assets/screenshots/{picture.name}-{theme}.png" for theme in THEMES)
            yield from ("", f"**{picture.name}**: {picture.answers}", "", "| dark | light |", "|---|---|")
            yield f"| ![{picture.name}, dark]({dark}) | ![{picture.name}, light]({light}) |"
    yield ""


if __name__ == "__main__":
    sys.exit(main())
