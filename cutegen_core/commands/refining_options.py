"""Add the commands that refine kernels to the command line: run, twin, resume, replay."""

from __future__ import annotations

import argparse

from cutegen_core.commands import refining
from cutegen_core.commands.answerer import add_answerer, answerer
from cutegen_core.commands.arguments import Subcommands, add_arch, add_command, add_executor, add_problem
from cutegen_core.commands.effort import add_budgets, add_effort
from cutegen_core.propose.registry import STRATEGIES
from cutegen_core.records.event import AnsweredBy, Role


def add(subcommands: Subcommands) -> None:
    """Add them."""
    run = add_command(subcommands, "run", refining.run, "refine a kernel for a problem")
    add_problem(run)
    run.add_argument(
        "--strategy", choices=list(STRATEGIES), default="cutegen",
        help="; ".join(f"{key}: {found.title}" for key, found in STRATEGIES.items()) + " (default: %(default)s)",
    )  # fmt: skip
    run.add_argument("--single-agent", action="store_true", help="the strategy's twin with one role instead of four")
    run.add_argument("--auto", action="store_true", help="run to the end without waiting for decisions")
    _add_answerers(run)
    twin = add_command(
        subcommands, "twin", refining.twin, "run astra with four roles, then with one, and compare; without decisions"
    )
    add_problem(twin)
    twin.set_defaults(auto=True)
    _add_answerers(twin)
    resume = add_command(
        subcommands, "resume", refining.resume, "go on with a session that was stopped, or whose budget is used up"
    )
    resume.add_argument("session", help="session id, or its first characters")
    resume.add_argument("--auto", action="store_true", help="from now on run to the end without waiting for decisions")
    add_budgets(resume, default_steps=None)
    replay = add_command(
        subcommands, "replay", refining.replay, "replay a session here: same prompts and replies, all stages run again"
    )
    replay.add_argument("session", help="session id, or a recording to import first")
    add_executor(replay)
    add_arch(replay, "the recorded session's")


def _add_answerers(parser: argparse.ArgumentParser) -> None:
    add_answerer(parser)
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


def _role(text: str) -> tuple[Role, AnsweredBy]:
    """Return a role and who answers it, from `testing=person`."""
    name, _, who = text.partition("=")
    if name not in tuple(Role):
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(Role)}; write ROLE=WHO")
    return Role(name), answerer(who)
