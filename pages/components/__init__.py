"""The parts of the pages, in folders by page; `shared` has what several pages use."""

from pathlib import Path

PAGES = Path(__file__).parents[1]
ASSETS = Path(__file__).parents[2] / "assets"
