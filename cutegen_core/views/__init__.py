"""Read models for the pages and the command line: rows ready to be drawn, computed from the store alone."""

from cutegen_core.evaluate.evidence.proof import MARK_WORDS
from cutegen_core.evaluate.evidence.speed import Share, doubt_text, share, strongest, suspect, untimed_text, why_untimed
from cutegen_core.execute.compiler.machine_code import Instruction, MachineCode, parse_machine_code
from cutegen_core.trajectory.summaries import SessionRow
from cutegen_core.views.agents import AgentRun, agent_lines, agent_run
from cutegen_core.views.alternatives import AlternativeRow, alternatives
from cutegen_core.views.bench_runs import BenchView, bench_jobs, bench_sessions, bench_view, seconds_left
from cutegen_core.views.benches import (
    BASELINES,
    FAST_P,
    BenchChange,
    BenchFigures,
    BenchLine,
    BenchOutcome,
    bench_figures,
    bench_lines,
    bench_words,
    compare_benches,
)
from cutegen_core.views.chips import chips
from cutegen_core.views.costs import Delta, MixRow, compare, instruction_mix, mix_rows
from cutegen_core.views.evidence import step_evidence
from cutegen_core.views.outcome import outcome_line, warnings_of, way_on
from cutegen_core.views.price import Price, paid_lines, price
from cutegen_core.views.profiles import ProfileDelta, ProfileView, profile_deltas, profile_view
from cutegen_core.views.rail import RailStatus, RailStop, rail
from cutegen_core.views.roles import CardState, RoleCard, Said, SuiteFact, role_cards, roles_of
from cutegen_core.views.session import (
    CallView,
    SessionView,
    StepRow,
    StepView,
    acceptance_trial,
    autonomy_words,
    base_trial,
    engine_line,
    outcome_step,
    session_rows,
    session_view,
    step_view,
    unreadable_sessions,
)
from cutegen_core.views.shapes import ShapeCell, ShapeColumn, ShapeTable, shape_cells, shape_table
from cutegen_core.views.speed import (
    SpeedRow,
    compare_speed,
    implied_peaks,
    performance_of,
    speed_rows,
    timing_of,
)
from cutegen_core.views.tree import START, TreeRow, step_tree

__all__ = [
    "BASELINES",
    "FAST_P",
    "MARK_WORDS",
    "START",
    "AgentRun",
    "AlternativeRow",
    "BenchChange",
    "BenchFigures",
    "BenchLine",
    "BenchOutcome",
    "BenchView",
    "CallView",
    "CardState",
    "Delta",
    "Instruction",
    "MachineCode",
    "MixRow",
    "Price",
    "ProfileDelta",
    "ProfileView",
    "RailStatus",
    "RailStop",
    "RoleCard",
    "Said",
    "SessionRow",
    "SessionView",
    "ShapeCell",
    "ShapeColumn",
    "ShapeTable",
    "Share",
    "SpeedRow",
    "StepRow",
    "StepView",
    "SuiteFact",
    "TreeRow",
    "acceptance_trial",
    "agent_lines",
    "agent_run",
    "alternatives",
    "autonomy_words",
    "base_trial",
    "bench_figures",
    "bench_jobs",
    "bench_lines",
    "bench_sessions",
    "bench_view",
    "bench_words",
    "chips",
    "compare",
    "compare_benches",
    "compare_speed",
    "doubt_text",
    "engine_line",
    "implied_peaks",
    "instruction_mix",
    "mix_rows",
    "outcome_line",
    "outcome_step",
    "paid_lines",
    "parse_machine_code",
    "performance_of",
    "price",
    "profile_deltas",
    "profile_view",
    "rail",
    "role_cards",
    "roles_of",
    "seconds_left",
    "session_rows",
    "session_view",
    "shape_cells",
    "shape_table",
    "share",
    "speed_rows",
    "step_evidence",
    "step_tree",
    "step_view",
    "strongest",
    "suspect",
    "timing_of",
    "unreadable_sessions",
    "untimed_text",
    "warnings_of",
    "way_on",
    "why_untimed",
]
