"""Film a page as an animated picture: frames with captions, each taken only when the page shows what it is about."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import FloatRect, Locator, Page, expect

from docs.settle import settle

WIDTH, HEIGHT, BAR = 1280, 800, 60
PAPER, INK, QUIET, ACCENT = "#0b0e13", "#e6ecf3", "#8b98a8", "#ffb454"
TEXT_SIZE = 24
TRIAL_MS = 240_000
"""The first trial on a machine builds the emulator's headers."""


class Film:
    """Frames of one page, in order.

    A frame is a picture of the page with a ring around what it is about; below it the key that was pressed, what
    happens in a few words, and a line that grows with the time.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[tuple[Image.Image, str, str]] = []
        self._durations_ms: list[int] = []

    def take(
        self, caption: str, *shows: Locator, at: Locator | None = None, key: str = "", seconds: float = 2.5,
        rests: bool = True,
    ) -> None:  # fmt: skip
        """Take a frame once the page shows these; `at` gets the ring, `rests` waits until everything is drawn."""
        for needed in (*shows, *([at] if at else [])):
            expect(needed.first).to_be_visible(timeout=TRIAL_MS)
        if rests:
            settle(self._page)
        box = at.first.bounding_box() if at else None
        picture = Image.open(io.BytesIO(self._page.screenshot())).convert("RGB")
        if box is not None:
            _ring(picture, box)
        self._frames.append((picture, caption, key))
        self._durations_ms.append(int(1000 * seconds))
        print(f"{len(self._frames):2}. [{key or ' '}] {caption}", flush=True)

    @property
    def seconds(self) -> float:
        return sum(self._durations_ms) / 1000

    def write(self, target: Path) -> None:
        """Write the film as an animated lossless WebP, which GitHub shows like any picture."""
        shown, total = 0, sum(self._durations_ms)
        drawn = []
        for (picture, caption, key), duration in zip(self._frames, self._durations_ms, strict=True):
            shown += duration
            frame = _with_bar(picture, caption, key, shown / total)
            drawn.append(frame.quantize(256, dither=Image.Dither.NONE).convert("RGB"))
        drawn[0].save(
            target, save_all=True, append_images=drawn[1:], duration=self._durations_ms, loop=0, lossless=True,
            quality=90, method=5,
        )  # fmt: skip


def _ring(picture: Image.Image, box: FloatRect) -> None:
    left, top = max(2, box["x"] - 5), max(2, box["y"] - 5)
    right, bottom = min(WIDTH - 3, box["x"] + box["width"] + 5), min(HEIGHT - 3, box["y"] + box["height"] + 5)
    ImageDraw.Draw(picture).rounded_rectangle((left, top, right, bottom), radius=7, outline=ACCENT, width=3)


def _with_bar(picture: Image.Image, caption: str, key: str, done: float) -> Image.Image:
    frame = Image.new("RGB", (WIDTH, HEIGHT + BAR), PAPER)
    frame.paste(picture)
    pen, font = ImageDraw.Draw(frame), ImageFont.load_default(TEXT_SIZE)
    middle, x = HEIGHT + BAR // 2, 20.0
    if key:
        width = font.getlength(key) + 22
        pen.rounded_rectangle((x, middle - 18, x + width, middle + 18), radius=6, outline=ACCENT, width=2)
        pen.text((x + 11, middle), key, ACCENT, font, anchor="lm")
        x += width + 16
    assert x + font.getlength(caption) < WIDTH - 20, f"too long for the bar: {caption}"
    pen.text((x, middle), caption, INK, font, anchor="lm")
    pen.rectangle((0, HEIGHT + BAR - 4, WIDTH * done, HEIGHT + BAR), fill=QUIET)
    return frame
