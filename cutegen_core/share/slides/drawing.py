"""Draw slides as HTML with strict Jinja, which escapes every text and hides nothing in it; markup is made from escaped
pieces only."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import jinja2
from markupsafe import Markup

from cutegen_core.machine.visible_text import show_hidden
from cutegen_core.share.slides import svg
from cutegen_core.share.slides.slides import OpeningSlide, ResultSlide, Slide, StepSlide

SlidePane = Literal["change", "kernel", "speed"]
"""What is drawn large."""


def _shown(value: object) -> object:
    """Return text with invisible characters made visible; markup and numbers unchanged."""
    return show_hidden(value) if isinstance(value, str) and not isinstance(value, Markup) else value


TEMPLATES = Path(__file__).parent / "templates"
_FILES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    autoescape=True, finalize=_shown,
)  # fmt: skip
_KINDS: dict[type[Slide], str] = {OpeningSlide: "opening", StepSlide: "step", ResultSlide: "result"}

STYLE = (TEMPLATES / "slides.css").read_text(encoding="utf-8")
"""The look of the slides; a document with inline pictures also needs `svg.STYLE`."""


def draw(slide: Slide, *, pane: SlidePane | None, pictures: Literal["inline", "image"]) -> Markup:
    """Return the HTML of a slide.

    Args:
        pane: what is drawn large; None draws the change and the kernel, for a document that chooses by itself.
        pictures: "image" for a page that takes no SVG in its HTML.
    """
    picture = svg.Picture.inline if pictures == "inline" else svg.Picture.image
    kind = _KINDS[type(slide)]
    return Markup(render("slides.html.jinja", slide=slide, kind=kind, pane=pane, picture=picture))


def render(template: str, **values: object) -> str:
    """Return the text of `templates/TEMPLATE`; every name it uses must be given."""
    return _FILES.get_template(template).render(**values)
