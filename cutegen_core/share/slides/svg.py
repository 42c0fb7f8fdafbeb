"""Write pictures as SVG text: the few shapes that the charts need, texts escaped, colours named by a class."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from markupsafe import Markup, escape

from cutegen_core.machine.visible_text import show_hidden

STYLE = (Path(__file__).parent / "templates" / "chart.css").read_text(encoding="utf-8")

Anchor = Literal["start", "middle", "end"]


class Picture(NamedTuple):
    """A drawing in user units; `label` describes it in words."""

    width: int
    height: int
    label: str
    body: str

    def inline(self) -> Markup:
        """Return the SVG for a document that has `STYLE` in its own styles."""
        return self._svg("")

    def image(self) -> Markup:
        """Return the SVG as an image, for a page that takes no SVG in its HTML; it brings its own style and cannot run
        anything."""
        data = base64.b64encode(self.standalone().encode()).decode()
        return Markup('<img class="pr-picture" alt="{}" src="data:image/svg+xml;base64,{}">').format(
            show_hidden(self.label), data
        )

    def standalone(self, style: str = "") -> str:
        """Return the SVG as a file, with its own style and what is added to it."""
        return f"{self._svg(f'<style>{STYLE}{style}</style>')}\n"

    def _svg(self, style: str) -> Markup:
        opening = (
            '<svg xmlns="http://www.w3.org/2000/svg" class="pr-picture" role="img" aria-label="{}" viewBox="0 0 {} {}">'
        )
        return Markup(opening).format(show_hidden(self.label), self.width, self.height) + Markup(
            f"{style}{self.body}</svg>"
        )


def text(x: float, y: float, words: str, kind: str = "", anchor: Anchor = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(show_hidden(words))}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" class="{kind}"/>'


def path(points: Iterable[tuple[float, float]], kind: str) -> str:
    """Return straight lines from point to point."""
    return f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}" class="{kind}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" class="{kind}"/>'


def dot(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{kind}"/>'


def cross(x: float, y: float, radius: float, kind: str) -> str:
    left, top, size = x - radius, y - radius, 2 * radius
    return (
        f'<path d="M{left:.1f} {top:.1f}l{size:.1f} {size:.1f}m0 {-size:.1f}l{-size:.1f} {size:.1f}" class="{kind}"/>'
    )
