"""Add the commands that compile, run or export, and their options, to the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cutegen_core.commands import benches, kernels, refining, sessions, this_machine
from cutegen_core.commands.arguments import (
    Command,
    Subcommands,
    add_arch,
    add_command,
    add_executor,
    add_problem,
    whole,
)
from cutegen_core.commands.effort import add_budgets, add_effort
from cutegen_core.problems import sets
from cutegen_core.propose.registry import ANSWERERS, STRATEGIES
from cutegen_core.records.event import AnsweredBy, Role
from cutegen_core.share.exports import FORMATS

_AddCommand = Callable[[str, Command, str], argparse.ArgumentParser]


def add(subcommands: Subcommands) -> None:
    """Add them all."""
    app = subcommands.add_parser("app", help=_APP, description=_APP)
    app.set_defaults(command=this_machine.serve)
    app.add_argument("--port", type=_port, default=8501, help="port to serve on (default: %(default)s)")
    app.add_argument("--no-browser", action="store_true", help="open no browser")
    command = partial(add_command, subcommands)
    _add_machine_and_problems(command)
    _add_kernels(command)
    _add_sessions(command)


_APP = "serve the workbench and open a browser"


def _add_machine_and_problems(command: _AddCommand) -> None:
    examination = command("doctor", this_machine.show_doctor, "check this machine and show how to fix what is missing")
    examination.add_argument(
        "--measure", action="store_true", help="first measure the GPU's peaks and test the profiler (15 s)"
    )
    listing = command("problems", kernels.list_problems, "list the built-in and saved problems, or those of a path")
    listing.add_argument("--path", metavar="PATH", help="list a KernelBench file or a folder of them instead")
    listing.add_argument(
        "--lint", nargs="?", const="", metavar="NAME_OR_PATH",
        help="look for weaknesses in them, or in this one (exit code 1: an error was found)",
    )  # fmt: skip
    listing.add_argument(
        "--playbook", action="store_true",
        help="say for each which of the playbook's families recognises it, or why none does",
    )  # fmt: skip
    listing.add_argument(
        "--run-existing", action="store_true", help="with --lint, also test their existing kernels on the emulator"
    )


def _add_kernels(command: _AddCommand) -> None:
    run = command("run", refining.run, "refine a kernel for a problem")
    add_problem(run)
    run.add_argument(
        "--strategy", choices=list(STRATEGIES), default="cutegen",
        help="; ".join(f"{key}: {found.title}" for key, found in STRATEGIES.items()) + " (default: %(default)s)",
    )  # fmt: skip
    run.add_argument("--single-agent", action="store_true", help="the strategy's twin with one role instead of four")
    run.add_argument("--auto", action="store_true", help="run to the end without waiting for decisions")
    _add_answerers(run)
    twin = command("twin", refining.twin, "run astra with four roles, then with one, and compare; without decisions")
    add_problem(twin)
    twin.set_defaults(auto=True)
    _add_answerers(twin)
    _add_bench(command)
    resume = command("resume", refining.resume, "go on with a session that was stopped, or whose budget is used up")
    resume.add_argument("session", help="session id, or its first characters")
    resume.add_argument("--auto", action="store_true", help="from now on run to the end without waiting for decisions")
    add_budgets(resume, default_steps=None)
    replay = command("replay", refining.replay, "replay a session here: same prompts and replies, all stages run again")
    replay.add_argument("session", help="session id, or a recording to import first")
    add_executor(replay)
    add_arch(replay, "the recorded session's")


def _add_bench(command: _AddCommand) -> None:
    bench = command("bench", benches.bench, "take a set of problems through sessions without decisions, and compare")
    known = "; ".join(f"{name}: {found.title}" for name, found in sets.SETS.items())
    bench.add_argument("--set", default="", metavar="NAME_OR_FOLDER", help=f"{known}; or a folder of files")
    bench.add_argument("--checkout", type=Path, metavar="FOLDER", help="KernelBench, for the sets that are parts of it")
    bench.add_argument("--go-on", default="", metavar="BENCH", help="go on with a bench that was stopped")
    bench.add_argument("--against", default="", metavar="BENCH", help="compare with this earlier bench")
    bench.add_argument(
        "--strategy", choices=list(STRATEGIES), default="cutegen", help="as for run (default: %(default)s)"
    )
    bench.add_argument(
        "--proposer", type=_answerer, default=AnsweredBy.PLAYBOOK, metavar="WHO",
        help=f"who writes the kernels: {', '.join(ANSWERERS)} (default: %(default)s)",
    )  # fmt: skip
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


def _add_answerers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proposer", type=_answerer, default=AnsweredBy.PLAYBOOK, metavar="WHO",
        help=f"who writes the kernels: {', '.join(ANSWERERS)} (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--role", type=_role, action="append", default=[], metavar="ROLE=WHO",
        help="who answers a role of the strategy, such as testing=person; may be repeated (default: as --proposer)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-regressions", action="store_true",
        help="a kernel that is faster overall becomes the best although a workload became slower",
    )  # fmt: skip
    parser.add_argument(
        "--base-url", metavar="URL", help="an OpenAI-compatible server; the key is read from CUTEGEN_API_KEY"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="model name on that server, or a model from Setup")
    add_effort(parser)


def _add_sessions(command: _AddCommand) -> None:
    importing = command("import", sessions.import_, "import a recording, CuTeGen nodes or a KernelBench run, read-only")
    importing.add_argument("path", type=Path, help="file or folder to import")
    kernel = command("import-kernel", kernels.import_kernel, "make a kernel file of a plain .cu with host code")
    kernel.add_argument("file", type=Path, help="file with __global__ functions and the host code that launches them")
    kernel.add_argument(
        "--problem", required=True, metavar="NAME_OR_PATH", help="what it solves: its arguments are matched to that"
    )
    kernel.add_argument(
        "--function", default="", metavar="NAME", help="host function to follow, where several launch kernels"
    )
    kernel.add_argument(
        "-o", "--out", dest="output", type=Path, metavar="FILE", help="file to write (default: standard output)"
    )
    show = command("show", sessions.show, "show one session step by step")
    show.add_argument("session", help="session id, or its first characters")
    exporting = command("export", sessions.export_session, "write a session's kernel or trajectory to a file")
    exporting.add_argument("session", help="session id, or its first characters")
    formats = "; ".join(f"{found.key}: {found.title}" for found in FORMATS.values())
    exporting.add_argument("--format", choices=tuple(FORMATS), default="cu", help=f"{formats} (default: %(default)s)")
    exporting.add_argument(
        "--original", type=Path, metavar="FILE", help="format library: the file that the existing kernel came from"
    )
    exporting.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help="file to write")


_port, _at_once = whole(1, 65535), whole(1, 8)


def _answerer(text: str) -> AnsweredBy:
    """Return who answers; "manual" is the older name of a person."""
    name = "person" if text == "manual" else text
    if name not in ANSWERERS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ANSWERERS)}")
    return AnsweredBy(name)


def _role(text: str) -> tuple[Role, AnsweredBy]:
    """Return a role and who answers it, from `testing=person`."""
    name, _, who = text.partition("=")
    if name not in tuple(Role):
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(Role)}; write ROLE=WHO")
    return Role(name), _answerer(who)
