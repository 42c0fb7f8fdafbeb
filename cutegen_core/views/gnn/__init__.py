"""Read models of GNN runs: a run as it stands, its figures, and runs beside one another. No torch here."""

from cutegen_core.views.gnn.beside import Beside, RankPoint, Side, beside, scaling
from cutegen_core.views.gnn.figures import Figures, Wait, bound_words, figures, waits
from cutegen_core.views.gnn.kernels import KernelChoice, kernel_choices, kernel_problem, plugs_in
from cutegen_core.views.gnn.runs import RunRow, RunView, computed_on, run_rows, run_title, run_view

__all__ = [
    "Beside",
    "Figures",
    "KernelChoice",
    "RankPoint",
    "RunRow",
    "RunView",
    "Side",
    "Wait",
    "beside",
    "bound_words",
    "computed_on",
    "figures",
    "kernel_choices",
    "kernel_problem",
    "plugs_in",
    "run_rows",
    "run_title",
    "run_view",
    "scaling",
    "waits",
]
