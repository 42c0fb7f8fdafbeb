"""The panes of the evidence, in the order of the switch: the same for every step, what only some have last. To add one:
its module, and a line in `PANES`.
"""

from __future__ import annotations

from pages.components.session.evidence.candidates import has_several, render_candidates
from pages.components.session.evidence.correctness import render_correctness
from pages.components.session.evidence.log import render_log
from pages.components.session.evidence.memory import render_memory
from pages.components.session.evidence.pane import Pane
from pages.components.session.evidence.profile_pane import render_profile
from pages.components.session.evidence.resources import render_resources
from pages.components.session.evidence.roofline import render_roofline
from pages.components.session.evidence.sass import render_sass
from pages.components.session.evidence.shapes import render_shapes
from pages.components.session.evidence.sweep import is_swept, render_sweep
from pages.components.session.evidence.timing import render_timing
from pages.components.session.exchanges import render_exchanges

PANES: tuple[Pane, ...] = (
    Pane("correctness", "correctness", render_correctness),
    Pane("timing", "timing", render_timing),
    Pane("roofline", "roofline", render_roofline),
    Pane("profile", "profile", render_profile),
    Pane("sass", "SASS", render_sass),
    Pane("resources", "resources", render_resources),
    Pane("log", "log", render_log),
    Pane("shapes", "shapes", render_shapes, needs_trial=False),
    Pane("prompt", "prompt", lambda given: render_exchanges(given.shown), needs_trial=False),
    Pane("memory", "memory", lambda given: render_memory(given.view, given.shown), needs_trial=False),
    Pane("candidates", "candidates", render_candidates, shown_when=has_several, needs_trial=False),
    Pane("sweep", "sweep", render_sweep, shown_when=is_swept, needs_trial=False),
)
