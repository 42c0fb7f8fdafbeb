"""Show a session as slides: the problem, its steps, the result. The page and the export show the same slides.

1. `deck` lists the stops of a session; steps that left nothing to show have none.
2. `slides` collects what one stop shows, in words, numbers and pictures.
3. `drawing` makes HTML of it, in which every text of a person, a model or a kernel is escaped.
"""

from cutegen_core.share.slides.deck import RESULT, START, Deck, Stop, deck
from cutegen_core.share.slides.drawing import STYLE, SlidePane, draw
from cutegen_core.share.slides.slides import slide

__all__ = ["RESULT", "START", "STYLE", "Deck", "SlidePane", "Stop", "deck", "draw", "slide"]
