"""Templates of exported files: strict Jinja, one file each under `templates/`; `.html` ones escape what they get."""

from __future__ import annotations

from pathlib import Path

import jinja2

_FILES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
    autoescape=lambda name: bool(name and ".html" in name),
)


def render(template: str, **values: object) -> str:
    """Return the text of `templates/TEMPLATE`; every name it uses must be given."""
    return _FILES.get_template(template).render(**values)


def one_line(text: str) -> str:
    """Return a person's or a model's text, made harmless inside comments, docstrings and TOML strings."""
    kept = text.replace("\\", "/").replace('"', "'").replace("*/", "* /")
    return " ".join("".join(c if c.isprintable() else " " for c in kept).split())
