"""Read models of GNN runs: a run as it stands, its figures, and runs beside one another. No torch here."""

from cutegen_core.views.gnn.beside import AggregateSide, Beside, RankPoint, beside, on_emulator, scaling
from cutegen_core.views.gnn.figures import ExposedWait, Figures, KernelBound, bound_words, figures, limit_words, waits
from cutegen_core.views.gnn.kernels import KernelChoice, kernel_choices, kernel_problem, plugs_in
from cutegen_core.views.gnn.rows import FigureRow, duration, figure_rows, percent_of, progress_words
from cutegen_core.views.gnn.runs import (
    RunRow,
    RunView,
    computed_on,
    figure_device,
    imported_words,
    run_rows,
    run_title,
    run_view,
    view_of,
)

__all__ = [
    "AggregateSide",
    "Beside",
    "ExposedWait",
    "FigureRow",
    "Figures",
    "KernelBound",
    "KernelChoice",
    "RankPoint",
    "RunRow",
    "RunView",
    "beside",
    "bound_words",
    "computed_on",
    "duration",
    "figure_device",
    "figure_rows",
    "figures",
    "imported_words",
    "kernel_choices",
    "kernel_problem",
    "limit_words",
    "on_emulator",
    "percent_of",
    "plugs_in",
    "progress_words",
    "run_rows",
    "run_title",
    "run_view",
    "scaling",
    "view_of",
    "waits",
]
