"""The command line: `cutegen app | doctor | problems | check | run | replay | import | sessions | show | export`.

Every command takes `--json`: then standard output holds one JSON document and nothing else; progress goes to stderr.
Exit codes: 0 done (for `check` and `run`: passed, accepted), 1 not passed, 2 wrong usage or the machine's fault.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cutegen_core import __version__, commands
from cutegen_core.propose.registry import ANSWERERS, STRATEGIES
from cutegen_core.records.errors import CutegenError
from cutegen_core.records.event import AnsweredBy
from cutegen_core.share.exports import FORMATS
from cutegen_core.wiring import EXECUTORS

_Command = Callable[[argparse.Namespace], int]
_AddCommand = Callable[[str, _Command, str], argparse.ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = _parser().parse_args(argv)
    command: _Command = arguments.command
    try:
        return command(arguments)
    except CutegenError as error:
        if getattr(arguments, "json", False):
            print(json.dumps({"error": str(error)}))
        print(f"cutegen: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 2
    except KeyboardInterrupt:
        print("interrupted; a session goes on in the engine (`cutegen sessions`)", file=sys.stderr)
        return 2


def command_names() -> tuple[str, ...]:
    """Return the names of all commands."""
    actions = _parser()._subparsers
    assert actions is not None
    return tuple(next(iter(actions._group_actions)).choices or ())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cutegen", description="From a PyTorch reference to a proven CuTe kernel.")
    parser.add_argument("--version", action="version", version=f"cutegen {__version__}")
    subcommands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: _Command, help_text: str) -> argparse.ArgumentParser:
        sub = subcommands.add_parser(name, help=help_text, description=help_text)
        sub.set_defaults(command=run)
        if run is not commands.serve:
            sub.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")
        return sub

    _add_machine_and_problems(command)
    _add_kernels(command)
    _add_sessions(command)
    return parser


def _add_machine_and_problems(command: _AddCommand) -> None:
    app = command("app", commands.serve, "serve the workbench and open the browser")
    app.add_argument("--port", type=int, default=8501)
    app.add_argument("--no-browser", action="store_true")
    examination = command("doctor", commands.show_doctor, "what this machine can do, with the fix for what it can't")
    examination.add_argument(
        "--measure",
        action="store_true",
        help="first measure what the GPU can do at best and try the profiler out (15 s)",
    )
    listing = command("problems", commands.list_problems, "the built-in problems, or those of a file or folder")
    listing.add_argument("--path", help="a KernelBench file or a folder of them")
    listing.add_argument(
        "--lint", nargs="?", const="", metavar="NAME_OR_PATH",
        help="say what is doubtful about them, or about this one (1: an error was found)",
    )  # fmt: skip


def _add_kernels(command: _AddCommand) -> None:
    check = command("check", commands.check, "take one kernel file through the stages")
    check.add_argument("file", type=Path)
    _add_problem(check)
    check.add_argument("--seed", type=int, help="of the inputs; a fresh one unless given")
    run = command("run", commands.run, "refine a problem's kernel")
    _add_problem(run)
    run.add_argument("--strategy", choices=list(STRATEGIES), default="cutegen", help="how the kernel is refined")
    answerers = ", ".join(ANSWERERS)
    run.add_argument(
        "--proposer", type=_answerer, default=AnsweredBy.PLAYBOOK, metavar="WHO", help=f"who answers: {answerers}"
    )
    run.add_argument("--base-url", help="of an OpenAI-compatible server; the key comes from CUTEGEN_API_KEY")
    run.add_argument("--model", default="", help="the model's name there, or the name of one set up before")
    run.add_argument("--budget-tokens", type=int, help="tokens the session may use, prompts and answers")
    run.add_argument("--max-steps", type=int, default=40)
    run.add_argument("--auto", action="store_true", help="go on to the end without a person")
    replay = command(
        "replay", commands.replay, "replay a session: same prompts and replies, everything else really run"
    )
    replay.add_argument("session", help="its id, or a recording to import first")
    _add_executor(replay)
    replay.add_argument("--arch")


def _add_sessions(command: _AddCommand) -> None:
    importing = command("import", commands.import_, "a recording, CuTeGen nodes or a KernelBench run, read-only")
    importing.add_argument("path", type=Path)
    command("sessions", commands.list_sessions, "all sessions of this workspace")
    show = command("show", commands.show, "one session, step by step")
    show.add_argument("session", help="its id, or the beginning of it")
    exporting = command("export", commands.export_session, "write a session's kernel or its trajectory to a file")
    exporting.add_argument("session")
    exporting.add_argument("--format", choices=tuple(FORMATS), default="cu")
    exporting.add_argument("-o", "--output", type=Path, required=True, help="where to")


def _add_problem(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problem", required=True, help="a built-in name or the path of a KernelBench file")
    _add_executor(parser)
    parser.add_argument("--arch", help="compile target such as sm_90a; the GPU's own, else sm_90a")


def _answerer(text: str) -> AnsweredBy:
    """Return who answers; "manual" is the older name of a person."""
    name = "person" if text == "manual" else text
    if name not in ANSWERERS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ANSWERERS)}")
    return AnsweredBy(name)


def _add_executor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--executor", choices=EXECUTORS, help="gpu, or cpu (the emulator); the GPU where there is one")


if __name__ == "__main__":
    sys.exit(main())
