"""Draw the parts of the pages. There is a folder per page; `shared` holds what several pages use."""

from pathlib import Path

PAGES = Path(__file__).parents[1]
ASSETS = Path(__file__).parents[2] / "assets"
