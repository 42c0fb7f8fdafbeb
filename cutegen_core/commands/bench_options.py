"""Add `bench` to the command line."""

from __future__ import annotations

from pathlib import Path

from cutegen_core.commands import benches
from cutegen_core.commands.answerer import add_answerer
from cutegen_core.commands.arguments import Subcommands, add_arch, add_command, add_executor, whole
from cutegen_core.commands.effort import add_effort
from cutegen_core.problems import sets
from cutegen_core.propose.registry import STRATEGIES

_at_once = whole(1, 8)


def add(subcommands: Subcommands) -> None:
    """Add it."""
    bench = add_command(
        subcommands, "bench", benches.bench, "take a set of problems through sessions without decisions, and compare"
    )
    known = "; ".join(f"{name}: {found.title}" for name, found in sets.SETS.items())
    bench.add_argument("--set", default="", metavar="NAME_OR_FOLDER", help=f"{known}; or a folder of files")
    bench.add_argument("--checkout", type=Path, metavar="FOLDER", help="KernelBench, for the sets that are parts of it")
    bench.add_argument("--go-on", default="", metavar="BENCH", help="go on with a bench that was stopped")
    bench.add_argument("--against", default="", metavar="BENCH", help="compare with this earlier bench")
    bench.add_argument(
        "--strategy", choices=list(STRATEGIES), default="cutegen", help="as for run (default: %(default)s)"
    )
    add_answerer(bench)
    bench.add_argument("--model", default="", metavar="NAME", help="a model from Setup")
    add_effort(bench)
    bench.add_argument(
        "--at-once", type=_at_once, default=1, metavar="N", help="sessions at a time (default: %(default)s)"
    )
    bench.add_argument(
        "--tune", action="store_true", help="sweep each best kernel's parameters before its session ends"
    )
    add_executor(bench)
    add_arch(bench, "the GPU's, or sm_90a without one")
