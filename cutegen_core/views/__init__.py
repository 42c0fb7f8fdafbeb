"""Read models for the pages and the command line: rows ready to be drawn, computed from the store alone."""

from cutegen_core.views.chips import chips
from cutegen_core.views.costs import Delta, MixRow, compare, instruction_mix, mix_rows
from cutegen_core.views.rail import RailStatus, RailStop, rail
from cutegen_core.views.session import (
    CallView,
    SessionRow,
    SessionView,
    StepRow,
    StepView,
    acceptance_trial,
    autonomy_words,
    base_trial,
    engine_line,
    session_rows,
    session_view,
    step_view,
)

__all__ = [
    "CallView", "Delta", "MixRow", "RailStatus", "RailStop", "SessionRow", "SessionView", "StepRow", "StepView",
    "acceptance_trial", "autonomy_words", "base_trial", "chips", "compare", "engine_line", "instruction_mix",
    "mix_rows", "rail", "session_rows", "session_view", "step_view",
]  # fmt: skip
